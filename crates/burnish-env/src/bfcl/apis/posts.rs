//! Posts, comments and followers, as on Twitter.

use serde_json::{Map, Value, json};

use super::{Api, Given, Outcome, Scenario, refusal};
use crate::bfcl::python::equal;

/// The state of one user's account, and everybody's posts.
#[derive(Debug, Clone)]
pub(super) struct Posts {
    username: String,
    password: String,
    is_in: bool,
    /// Posts by their ids.
    tweets: Map<String, Value>,
    /// Comments by ids of posts. Those of the row are under texts there, so that no method finds them.
    comments: Map<String, Value>,
    comments_before: Map<String, Value>,
    /// Ids of posts by users who posted them again.
    retweets: Map<String, Value>,
    following: Vec<Value>,
    counter: i64,
}

impl Posts {
    pub(super) fn new(scenario: &Scenario<'_>) -> Result<Self, String> {
        let tweets = scenario.object("tweets", json!({}))?;
        let texts = ["username", "content"];
        for (id, tweet) in &tweets {
            let is_text = |key: &&str| tweet.get(*key).is_some_and(Value::is_string);
            if id.parse::<i64>().is_err() || !texts.iter().all(is_text) {
                return Err(format!(
                    "tweets.{id}: must be an object under a number, with username and content"
                ));
            }
        }
        Ok(Posts {
            username: scenario.text("username", "john")?,
            password: scenario.text("password", "john123")?,
            is_in: scenario.flag("authenticated", false)?,
            tweets,
            comments: Map::new(),
            comments_before: scenario.object("comments", json!({}))?,
            retweets: scenario.object("retweets", json!({}))?,
            following: scenario.list("following_list", json!(["alice", "bob"]))?,
            counter: scenario.whole("tweet_counter", 0)?,
        })
    }

    fn post(&mut self, given: &Given<'_>) -> Outcome {
        let (tags, mentions) = (given.texts("tags")?, given.texts("mentions")?);
        let tweet = json!({ "id": self.counter, "username": self.username, "content": given.text("content")?,
            "tags": tags, "mentions": mentions });
        self.tweets.insert(self.counter.to_string(), tweet.clone());
        self.counter += 1;
        Ok(tweet)
    }

    /// The id of a post that exists, or the refusal.
    fn known(&self, given: &Given<'_>) -> Result<Result<i64, Outcome>, String> {
        let id = given.whole("tweet_id")?;
        let is_known = self.tweets.contains_key(&id.to_string());
        Ok(if is_known { Ok(id) } else { Err(refusal(format!("Tweet with ID {id} not found."))) })
    }

    fn retweet(&mut self, id: i64) -> Outcome {
        let own = self.retweets.entry(self.username.clone()).or_insert_with(|| json!([]));
        let own = own.as_array_mut().ok_or("the retweets of a user are no list")?;
        if own.iter().any(|known| equal(known, &json!(id))) {
            return Ok(json!({ "retweet_status": "Already retweeted" }));
        }
        own.push(json!(id));
        Ok(json!({ "retweet_status": "Successfully retweeted" }))
    }

    fn comment(&mut self, id: i64, said: &str) -> Outcome {
        let comments = self.comments.entry(id.to_string()).or_insert_with(|| json!([]));
        let comments = comments.as_array_mut().ok_or("the comments are no list")?;
        comments.push(json!({ "username": self.username, "content": said }));
        Ok(json!({ "comment_status": "Comment added successfully" }))
    }

    fn mention(&mut self, id: i64, users: &[&str]) -> Outcome {
        let tweet = self.tweets.get_mut(&id.to_string());
        let mentions = tweet.and_then(|tweet| tweet.get_mut("mentions")).and_then(Value::as_array_mut);
        mentions.ok_or("'mentions'")?.extend(users.iter().map(|user| json!(user)));
        Ok(json!({ "mention_status": "Users mentioned successfully" }))
    }

    fn follow(&mut self, user: &str, is_follow: bool) -> Value {
        let at = self.following.iter().position(|known| known == user);
        match (is_follow, at) {
            (true, None) => self.following.push(json!(user)),
            (false, Some(at)) => drop(self.following.remove(at)),
            _ => {}
        }
        let is_changed = is_follow == at.is_none();
        json!({ (if is_follow { "follow_status" } else { "unfollow_status" }): is_changed })
    }

    fn stats(&self, user: &str) -> Value {
        let own = self.tweets.values().filter(|tweet| tweet["username"] == user).count();
        let following = if user == self.username { self.following.len() } else { 0 };
        let retweets = self.retweets.get(user).and_then(Value::as_array).map_or(0, Vec::len);
        json!({ "tweet_count": own, "following_count": following, "retweet_count": retweets })
    }

    fn search(&self, keyword: &str) -> Value {
        let keyword = keyword.to_lowercase();
        let lower = |value: &Value| value.as_str().map(str::to_lowercase).unwrap_or_default();
        let is_found = |tweet: &&Value| {
            let tags = tweet.get("tags").and_then(Value::as_array);
            lower(&tweet["content"]).contains(&keyword)
                || tags.into_iter().flatten().any(|tag| lower(tag) == keyword)
        };
        Value::Array(self.tweets.values().filter(is_found).cloned().collect())
    }
}

/// What a user who is not logged in is refused.
fn forbidden(method: &str) -> Option<&'static str> {
    Some(match method {
        "post_tweet" => "posting",
        "retweet" => "retweeting",
        "comment" => "commenting",
        "follow_user" => "following",
        "list_all_following" => "listing following",
        "unfollow_user" => "unfollowing",
        _ => return None,
    })
}

impl Api for Posts {
    fn call(&mut self, method: &str, given: &Given<'_>) -> Option<Outcome> {
        if let Some(what) = forbidden(method).filter(|_| !self.is_in) {
            return Some(refusal(format!("User not authenticated. Please authenticate before {what}.")));
        }
        let with_post = |known: Result<Result<i64, Outcome>, String>, act: &mut dyn FnMut(i64) -> Outcome| {
            known.and_then(|known| known.map_or_else(|refused| refused, act))
        };
        Some(match method {
            "authenticate_twitter" => given.text("username").and_then(|user| {
                let is_right = user == self.username && given.text("password")? == self.password;
                self.is_in |= is_right;
                Ok(json!({ "authentication_status": is_right }))
            }),
            "posting_get_login_status" => Ok(json!({ "login_status": self.is_in })),
            "post_tweet" => self.post(given),
            "retweet" => with_post(self.known(given), &mut |id| self.retweet(id)),
            "comment" => {
                with_post(self.known(given), &mut |id| self.comment(id, given.text("comment_content")?))
            }
            "mention" => {
                with_post(self.known(given), &mut |id| self.mention(id, &given.texts("mentioned_usernames")?))
            }
            "follow_user" => given.text("username_to_follow").map(|user| self.follow(user, true)),
            "unfollow_user" => given.text("username_to_unfollow").map(|user| self.follow(user, false)),
            "list_all_following" => Ok(json!({ "following_list": self.following })),
            "get_tweet" => with_post(self.known(given), &mut |id| Ok(self.tweets[&id.to_string()].clone())),
            "get_user_tweets" => given.text("username").map(|user| {
                let own = self.tweets.values().filter(|tweet| tweet["username"] == user);
                Value::Array(own.cloned().collect())
            }),
            "search_tweets" => given.text("keyword").map(|keyword| self.search(keyword)),
            "get_tweet_comments" => with_post(self.known(given), &mut |id| {
                Ok(self.comments.get(&id.to_string()).cloned().unwrap_or_else(|| json!([])))
            }),
            "get_user_stats" => given.text("username").map(|user| self.stats(user)),
            _ => return None,
        })
    }

    fn state(&self) -> Value {
        let Posts {
            username,
            password,
            is_in,
            tweets,
            comments,
            comments_before,
            retweets,
            following,
            counter,
        } = self;
        json!({ "username": username, "password": password, "authenticated": is_in, "tweets": tweets,
            "comments": [comments_before, comments], "retweets": retweets, "following_list": following,
            "tweet_counter": counter })
    }

    fn copy(&self) -> Box<dyn Api> {
        Box::new(self.clone())
    }
}
