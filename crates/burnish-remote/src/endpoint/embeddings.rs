//! Vectors of texts: `POST URL/embeddings`.

use burnish_http::HttpError;
use serde::Deserialize;
use serde_json::json;

use super::{Endpoint, text_of};

/// Below a server's address.
const PATH: &str = "/embeddings";

/// Texts of one request.
const TEXTS_MAX: usize = 64;

#[derive(Deserialize)]
struct Answer {
    data: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    index: usize,
    embedding: Vec<f32>,
}

impl Endpoint {
    /// A vector for each text, in order.
    ///
    /// # Errors
    /// Names the endpoint, and its status or what else went wrong.
    pub async fn embeddings(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, HttpError> {
        let mut vectors = Vec::with_capacity(texts.len());
        for part in texts.chunks(TEXTS_MAX) {
            let body = json!({ "model": self.config.model, "input": part });
            let text = self.server.post(PATH, text_of(&body)).text().await?;
            vectors.extend(vectors_of(&text, part.len()).map_err(|problem| {
                let call = format!("POST {}{PATH}", self.server.url());
                HttpError::Malformed {
                    call,
                    problem: format!("the answer is no list of embeddings: {problem}"),
                }
            })?);
        }
        Ok(vectors)
    }
}

/// The vectors in an answer about `count` texts, in the order of the texts.
fn vectors_of(text: &str, count: usize) -> Result<Vec<Vec<f32>>, String> {
    let answer: Answer = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mut vectors: Vec<Option<Vec<f32>>> = vec![None; count];
    for row in answer.data {
        let place =
            vectors.get_mut(row.index).ok_or_else(|| format!("index {} of {count} texts", row.index))?;
        if place.replace(row.embedding).is_some() {
            return Err(format!("index {} comes twice", row.index));
        }
    }
    let missing = vectors.iter().position(Option::is_none);
    match missing {
        Some(at) => Err(format!("index {at} is missing")),
        None => Ok(vectors.into_iter().flatten().collect()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::endpoint::EndpointConfig;
    use crate::test_server::serve;

    fn ask(
        texts: &[&str],
        reply: impl Fn(usize, &Value) -> Value + Send + 'static,
    ) -> (Result<Vec<Vec<f32>>, HttpError>, Vec<Value>) {
        let (url, asked) = serve(move |at, body| ("200 OK", reply(at, body)));
        let config = EndpointConfig { retries: 0, ..EndpointConfig::new(url, "e", None) };
        let found = burnish_http::block_on(Endpoint::new(config).unwrap().embeddings(texts)).unwrap();
        let asked = asked.lock().unwrap().clone();
        (found, asked)
    }

    #[test]
    fn vectors_come_in_the_order_of_the_texts_and_many_texts_in_parts() {
        let texts: Vec<String> = (0..130).map(|at| format!("{at}")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let (found, asked) = ask(&texts, |_, body| {
            let input = body["input"].as_array().unwrap().clone();
            let row = |(index, text): (usize, Value)| {
                let number: f32 = text.as_str().unwrap().parse().unwrap();
                json!({ "object": "embedding", "index": index, "embedding": [number, 1.0] })
            };
            // The last comes first.
            let data: Vec<Value> = input.into_iter().enumerate().map(row).rev().collect();
            json!({ "object": "list", "data": data, "model": "e", "usage": {} })
        });
        let expected: Vec<Vec<f32>> = (0..130).map(|at| vec![at as f32, 1.0]).collect();
        assert_eq!(found.unwrap(), expected);
        let sizes: Vec<usize> = asked.iter().map(|body| body["input"].as_array().unwrap().len()).collect();
        assert_eq!((sizes, &asked[0]["model"]), (vec![64, 64, 2], &json!("e")));
    }

    #[test]
    fn what_is_missing_or_too_much_is_named() {
        let row = |index: usize| json!({ "index": index, "embedding": [1.0] });
        for (data, problem) in [
            (json!([row(0)]), "index 1 is missing"),
            (json!([row(0), row(0)]), "index 0 comes twice"),
            (json!([row(0), row(2)]), "index 2 of 2 texts"),
            (json!("none"), "invalid type"),
        ] {
            let (found, _) = ask(&["a", "b"], move |_, _| json!({ "data": data }));
            let error = found.unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("/embeddings"), "{error}");
        }
    }
}
