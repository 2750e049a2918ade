use std::error::Error;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{
    AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, RETRY_AFTER, USER_AGENT,
};
use hyper::{Method, Request, Response, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::{ClientConfig, RootCertStore};
use rustls_native_certs::load_native_certs;
use serde_json::Value;

use crate::connector::Connector;
use crate::error::{complaint, is_passing};
use crate::{HttpError, Incoming, shortened, sleep, timeout};

/// Longest wait before another try, whatever the server asks for.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How long a connection is kept for the next request. Uvicorn, under most servers of models, closes it after 5 s.
const KEPT: Duration = Duration::from_secs(4);

/// How long a server is waited for, and how often it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Longest wait for one answer.
    pub timeout: Duration,
    /// Further tries after a failure that may be temporary: no answer in time, a failed connection, the statuses 408,
    /// 409, 425, 429 and 5xx.
    pub retries: u32,
    /// Wait before the second try; it doubles with every further try, up to a minute. A server may ask for another one
    /// (`retry-after`).
    pub wait: Duration,
}

/// An address that is asked over HTTP or HTTPS.
#[derive(Debug, Clone)]
pub struct Server {
    url: String,
    headers: Vec<(&'static str, HeaderValue)>,
    patience: Patience,
    client: Client<HttpsConnector<Connector>, Full<Bytes>>,
}

/// The key in an environment variable.
///
/// # Errors
/// If it is not set, or empty. `url` is only named.
pub fn key_from(variable: &str, url: &str) -> Result<String, HttpError> {
    let key = std::env::var(variable).ok().filter(|key| !key.is_empty());
    key.ok_or_else(|| HttpError::NoKey { url: url.to_owned(), variable: variable.to_owned() })
}

impl Server {
    /// The server at `url`, to which paths are appended. Nothing is sent yet. A `key` is sent as a bearer token.
    ///
    /// # Errors
    /// If the address is none, or the key has characters that can't be sent.
    pub fn new(url: &str, key: Option<&str>, patience: Patience) -> Result<Self, HttpError> {
        Server::through(url, key, patience, Matcher::from_env())
    }

    /// As [`Server::new`], with these proxies.
    pub(crate) fn through(
        url: &str,
        key: Option<&str>,
        patience: Patience,
        proxies: Matcher,
    ) -> Result<Self, HttpError> {
        let url = url.trim_end_matches('/');
        let wrong = |problem: &str| HttpError::Address { url: url.to_owned(), problem: problem.to_owned() };
        let uri: Uri = url.parse().map_err(|error| wrong(&format!("it is no address: {error}")))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none() {
            return Err(wrong("an address begins with http:// or https://, and names a host"));
        }
        let mut headers = vec![(
            USER_AGENT.as_str(),
            HeaderValue::from_static(concat!("burnish/", env!("CARGO_PKG_VERSION"))),
        )];
        if let Some(key) = key {
            let mut bearer = HeaderValue::try_from(format!("Bearer {key}"))
                .map_err(|_| wrong("its key has characters that can't be sent in a header"))?;
            bearer.set_sensitive(true);
            headers.push((AUTHORIZATION.as_str(), bearer));
        }
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(tls(&uri).map_err(|error| wrong(&format!("it can't be encrypted: {error}")))?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(Connector::new(proxies));
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(KEPT)
            .build(connector);
        Ok(Server { url: url.to_owned(), headers, patience, client })
    }

    /// Adds a header to every request.
    ///
    /// # Errors
    /// If `value` has characters that can't be sent.
    pub fn with_header(mut self, name: &'static str, value: &str) -> Result<Self, HttpError> {
        let problem = format!("the header `{name}` has characters that can't be sent");
        let value = HeaderValue::try_from(value)
            .map_err(|_| HttpError::Address { url: self.url.clone(), problem })?;
        self.headers.push((name, value));
        Ok(self)
    }

    /// Its address, without a slash at the end.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `GET` of a path, which begins with a slash.
    pub fn get(&self, path: &str) -> Call<'_> {
        self.call(Method::GET, path, None)
    }

    /// `POST` of JSON to a path, which begins with a slash.
    pub fn post(&self, path: &str, json: String) -> Call<'_> {
        self.call(Method::POST, path, Some(json))
    }

    /// `DELETE` of a path, which begins with a slash.
    pub fn delete(&self, path: &str) -> Call<'_> {
        self.call(Method::DELETE, path, None)
    }

    fn call(&self, method: Method, path: &str, body: Option<String>) -> Call<'_> {
        let url = format!("{}{path}", self.url);
        let body = body.map(Bytes::from);
        Call { server: self, method, url, headers: Vec::new(), body, patience: self.patience }
    }
}

/// A request to a server.
#[derive(Debug, Clone)]
#[must_use]
pub struct Call<'a> {
    server: &'a Server,
    method: Method,
    url: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    body: Option<Bytes>,
    patience: Patience,
}

/// What a server answered, whatever its status.
#[derive(Debug)]
pub struct Answered {
    /// The HTTP status.
    pub status: u16,
    headers: HeaderMap,
    /// What arrives after the headers.
    pub body: Incoming,
}

impl Answered {
    /// A header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

/// How one try failed.
enum Miss {
    /// It may be temporary; the server may say how long to wait.
    Retryable(HttpError, Option<Duration>),
    /// It is permanent.
    Fatal(HttpError),
}

/// Tries so far.
struct Tries {
    count: u32,
    wait: Duration,
    retries: u32,
}

impl Tries {
    fn new(patience: Patience) -> Self {
        Tries { count: 1, wait: patience.wait, retries: patience.retries }
    }

    /// Waits until it is time for the next try; fails if there is none.
    async fn again(&mut self, miss: Miss) -> Result<(), HttpError> {
        let (error, asked) = match miss {
            Miss::Fatal(error) => return Err(error),
            Miss::Retryable(error, asked) => (error, asked),
        };
        if self.count > self.retries {
            return Err(error);
        }
        sleep(asked.unwrap_or(self.wait).min(WAIT_MAX)).await;
        self.wait = (2 * self.wait).min(WAIT_MAX);
        self.count += 1;
        Ok(())
    }
}

impl Call<'_> {
    /// Waits for the answer with another patience than the server's.
    pub fn with(mut self, patience: Patience) -> Self {
        self.patience = patience;
        self
    }

    /// Sends the request a single time, because the server would do its work twice.
    pub fn once(mut self) -> Self {
        self.patience.retries = 0;
        self
    }

    /// Adds a header to this request.
    pub fn with_header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// What comes of sending the request a single time, whatever the status. The time limit is for its beginning.
    ///
    /// # Errors
    /// If nothing comes.
    pub async fn answer(&self) -> Result<Answered, HttpError> {
        let (parts, body) = self.response().await?.into_parts();
        let body = Incoming::new(self.name(), body);
        Ok(Answered { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    /// The text of the answer.
    ///
    /// # Errors
    /// If there is none, after all tries.
    pub async fn text(&self) -> Result<String, HttpError> {
        let mut tries = Tries::new(self.patience);
        loop {
            match self.in_time(self.whole(tries.count), tries.count).await {
                Ok(text) => return Ok(text),
                Err(miss) => tries.again(miss).await?,
            }
        }
    }

    /// The answer as JSON; `null` if it is empty.
    ///
    /// # Errors
    /// As [`Call::text`]; also if it is not JSON.
    pub async fn json(&self) -> Result<Value, HttpError> {
        let text = self.text().await?;
        if text.trim().is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_str(&text).map_err(|error| HttpError::Malformed {
            call: self.name(),
            problem: format!("the answer is not JSON ({error}): {}", shortened(&text)),
        })
    }

    /// The answer while it arrives. The time limit is for its beginning; whoever reads it knows how long to wait for
    /// the rest. Once it has begun, it is not asked for again.
    ///
    /// # Errors
    /// If it does not begin, after all tries.
    pub async fn stream(&self) -> Result<Incoming, HttpError> {
        let mut tries = Tries::new(self.patience);
        loop {
            match self.in_time(self.send(tries.count), tries.count).await {
                Ok(answer) => return Ok(answer),
                Err(miss) => tries.again(miss).await?,
            }
        }
    }

    pub(crate) fn name(&self) -> String {
        format!("{} {}", self.method, self.url)
    }

    async fn in_time<T>(&self, work: impl Future<Output = Result<T, Miss>>, tries: u32) -> Result<T, Miss> {
        let longest = self.patience.timeout;
        timeout(longest, work).await.unwrap_or_else(|| {
            let problem = format!("timeout after {} s", longest.as_secs_f64());
            Err(Miss::Retryable(HttpError::Connection { call: self.name(), tries, problem }, None))
        })
    }

    async fn whole(&self, tries: u32) -> Result<String, Miss> {
        self.send(tries).await?.text().await.map_err(|error| self.lost(error, tries))
    }

    /// As [`Call::answer`], as it comes.
    pub(crate) async fn response(&self) -> Result<Response<hyper::body::Incoming>, HttpError> {
        self.in_time(self.exchange(1), 1).await.map_err(|miss| match miss {
            Miss::Retryable(error, _) | Miss::Fatal(error) => error,
        })
    }

    async fn exchange(&self, tries: u32) -> Result<Response<hyper::body::Incoming>, Miss> {
        let mut request = Request::builder().method(&self.method).uri(&self.url);
        for (name, value) in &self.server.headers {
            request = request.header(*name, value);
        }
        if self.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let request = request.body(Full::new(self.body.clone().unwrap_or_default())).map_err(|error| {
            let problem = format!("it is no address: {error}");
            Miss::Fatal(HttpError::Address { url: self.url.clone(), problem })
        })?;
        self.server.client.request(request).await.map_err(|error| {
            let problem = reason(&error);
            let is_permanent = sources(&error).any(|source| source.is::<rustls::Error>());
            let error = HttpError::Connection { call: self.name(), tries, problem };
            if is_permanent { Miss::Fatal(error) } else { Miss::Retryable(error, None) }
        })
    }

    /// Sends the request. Returns the answer once its status says that there is one.
    async fn send(&self, tries: u32) -> Result<Incoming, Miss> {
        let response = self.exchange(tries).await?;
        let status = response.status();
        let asked = header(&response, RETRY_AFTER.as_str()).and_then(|seconds| seconds.parse().ok());
        let elsewhere = header(&response, LOCATION.as_str()).map(|url| format!("it points to {url}"));
        let answer = Incoming::new(self.name(), response.into_body());
        if status.is_success() {
            return Ok(answer);
        }
        let text = answer.text().await.map_err(|error| self.lost(error, tries))?;
        let said = elsewhere.filter(|_| status.is_redirection()).unwrap_or_else(|| complaint(&text));
        let error = HttpError::Status { call: self.name(), status: status.as_u16(), tries, said };
        if is_passing(status.as_u16()) {
            Err(Miss::Retryable(error, asked.map(Duration::from_secs)))
        } else {
            Err(Miss::Fatal(error))
        }
    }

    /// An answer that broke off before anybody saw any of it is as good as none.
    fn lost(&self, error: HttpError, tries: u32) -> Miss {
        match error {
            HttpError::Broken { call, problem } => {
                Miss::Retryable(HttpError::Connection { call, tries, problem }, None)
            }
            error => Miss::Fatal(error),
        }
    }
}

/// Certificates are checked against the lists of this program and of this machine, which may know a company's own.
fn tls(to: &Uri) -> Result<ClientConfig, rustls::Error> {
    let mut roots: RootCertStore = webpki_roots::TLS_SERVER_ROOTS.iter().cloned().collect();
    if to.scheme_str() == Some("https") {
        roots.add_parsable_certificates(load_native_certs().certs);
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(versions.with_root_certificates(roots).with_no_client_auth())
}

fn header<'a, T>(response: &'a Response<T>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

fn sources<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| below(*error))
}

fn below<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    match error.downcast_ref::<io::Error>() {
        // What lies in an error of this type is not among its sources.
        Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    }
}

/// What went wrong, from the connection down.
pub(crate) fn reason(error: &(dyn Error + 'static)) -> String {
    let mut said: Vec<String> = sources(error).map(ToString::to_string).collect();
    if said.len() > 1 {
        // The outermost only says that there was an error.
        said.remove(0);
    }
    said.dedup();
    said.join(": ")
}
