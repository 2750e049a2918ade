//! One session with one server.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use burnish_core::ToolSpec;
use burnish_http::{HeaderName, HeaderValue, HttpError, Patience, Server, block_on, timeout};
use burnish_sandbox::Conversation;
use futures_util::future::{Either, select};
use rmcp::model::{CallToolRequestParams, ClientConfig, Implementation, JsonObject, RequestMetaObject, Tool};
use rmcp::service::{ClientInitializeError, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{StreamableHttpClientTransportConfig, StreamableHttpError};
use rmcp::{ClientHandler, RoleClient, serve_client};
use serde_json::{Map, Value};

use crate::lines::Lines;
use crate::meter::Meter;
use crate::web::Web;
use crate::{Broken, Reply};

/// Lines of a server that wait until they are read; then the server waits.
const WAITING_MAX: usize = 16;

/// How long a server may take to end by itself.
const END: Duration = Duration::from_secs(2);

/// Where the key of a call goes, in the field of a request that the protocol keeps free for that.
const KEY: &str = "burnish/call";

/// Where a server is.
#[derive(Debug, Clone)]
pub enum Address {
    /// A program that is started.
    Command {
        /// Program and arguments.
        command: Vec<String>,
        /// Its environment variables, in addition to ours.
        variables: BTreeMap<String, String>,
        /// Where it runs and is looked up.
        folder: Option<PathBuf>,
    },
    /// An address that speaks streamable HTTP.
    Url {
        /// The address.
        url: String,
        /// Sent as a bearer token.
        key: Option<String>,
        /// Sent with every request.
        headers: BTreeMap<String, String>,
    },
}

/// What a server may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Longest wait until it has said which tools it has.
    pub start: Duration,
    /// Longest wait for the result of a call.
    pub call: Duration,
    /// Most bytes of one message.
    pub message_bytes: u64,
    /// Most bytes of all messages in one episode.
    pub episode_bytes: u64,
    /// Most bytes of a result that are given on; the rest is cut.
    pub result_bytes: usize,
}

/// A session. Dropping it kills a server that was started for it.
pub struct Client {
    service: RunningService<RoleClient, Plain>,
    process: Option<Conversation>,
    meter: Meter,
    tools: Vec<ToolSpec>,
    limits: Limits,
}

impl fmt::Debug for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Client { process, meter, .. } = self;
        formatter
            .debug_struct("Client")
            .field("process", process)
            .field("meter", meter)
            .finish_non_exhaustive()
    }
}

/// A client that can be asked for nothing: no sampling, no roots, no questions to a user.
struct Plain;

impl ClientHandler for Plain {
    fn get_info(&self) -> ClientConfig {
        let name = Implementation::new("burnish", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(rmcp::model::ClientCapabilities::default(), name)
    }
}

impl Client {
    /// Starts or reaches a server, and asks which tools it has.
    ///
    /// # Errors
    /// If there is no such program or address, or it does not say that it is a server with tools in time: why, with the
    /// end of stderr.
    pub fn start(address: &Address, limits: &Limits) -> Result<Self, Broken> {
        let meter = Meter::new(limits.episode_bytes);
        match address {
            Address::Command { command, variables, folder } => {
                let (sender, heard) = tokio::sync::mpsc::channel(WAITING_MAX);
                let process = Conversation::start(
                    command,
                    folder.as_deref(),
                    variables,
                    limits.message_bytes,
                    move |line| sender.blocking_send(line).is_ok(),
                );
                let process = process.map_err(|error| {
                    let place = folder.as_ref().map(|folder| format!(" in {}", folder.display()));
                    Broken(format!("can't be started{}: {error}", place.unwrap_or_default()))
                })?;
                let lines = Lines::new(process.speaker(), heard, meter.clone());
                Client::begin(serve_client(Plain, lines), Some(process), meter, limits)
            }
            Address::Url { url, key, headers } => {
                let web = reach(url, key.as_deref(), headers, &meter, limits)?;
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                // A new session would have lost what the episode did.
                config.reinit_on_expired_session = false;
                // The transport starts a task of its own, so it is made where tasks run.
                let hello = async {
                    serve_client(Plain, StreamableHttpClientTransport::with_client(web, config)).await
                };
                Client::begin(hello, None, meter, limits)
            }
        }
    }

    fn begin(
        hello: impl Future<Output = Result<RunningService<RoleClient, Plain>, ClientInitializeError>>,
        process: Option<Conversation>,
        meter: Meter,
        limits: &Limits,
    ) -> Result<Self, Broken> {
        let begun = within(limits.start, &meter, async {
            let service = hello.await.map_err(|error| initialising(&error))?;
            let tools = service.list_all_tools().await.map_err(|error| asking(&error))?;
            Ok((service, tools))
        });
        let begun = begun.unwrap_or_else(|miss| {
            Err(match miss {
                Miss::Late => format!(
                    "did not say which tools it has within {} s (timeout_seconds and startup_seconds)",
                    limits.start.as_secs_f64()
                ),
                Miss::Failed(problem) => problem,
            })
        });
        match begun {
            Ok((service, tools)) => {
                let tools = tools.into_iter().map(spec).collect();
                Ok(Client { service, process, meter, tools, limits: *limits })
            }
            // What was read wrong is also why the rest did not come.
            Err(problem) => Err(with_stderr(process, meter.fault().unwrap_or(problem))),
        }
    }

    /// The tools that it had when the session began.
    pub fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    /// Counts the bytes of an episode from zero again.
    pub fn restart(&self) {
        self.meter.restart();
    }

    /// Is the session still going on?
    pub fn is_running(&mut self) -> bool {
        !self.service.is_closed() && self.process.as_mut().is_none_or(Conversation::is_running)
    }

    /// Calls a tool. `key` identifies the call; a server finds it as `burnish/call` in the request's `_meta`.
    ///
    /// # Errors
    /// If no result comes within the limits; the session is then of no further use.
    pub fn call(&mut self, name: &str, arguments: &Map<String, Value>, key: &str) -> Result<Reply, Broken> {
        let mut meta = JsonObject::new();
        meta.insert(KEY.to_owned(), key.into());
        let mut asked = CallToolRequestParams::new(name.to_owned()).with_arguments(arguments.clone());
        asked.meta = Some(RequestMetaObject(meta.into()));
        let patience = self.limits.call;
        let called = within(patience, &self.meter, self.service.call_tool(asked));
        let problem = match called {
            // A result may be there before anybody has looked at what was wrong on its way.
            Ok(Ok(result)) => match self.meter.fault() {
                None => return Ok(Reply::of(result, self.limits.result_bytes)),
                Some(fault) => fault,
            },
            Ok(Err(ServiceError::McpError(error))) => {
                return Ok(Reply::refused(error, self.limits.result_bytes));
            }
            Ok(Err(error)) => self.meter.fault().unwrap_or_else(|| asking(&error)),
            Err(Miss::Failed(problem)) => problem,
            Err(Miss::Late) => format!(
                "gave no result within {} s; raise timeout_seconds if it needs longer",
                patience.as_secs_f64()
            ),
        };
        Err(Broken(format!("{problem} (called `{name}`)")))
    }

    /// Ends a session that has failed. Returns the problem with the end of what the server wrote to stderr.
    pub fn stop(self, problem: Broken) -> Broken {
        let Client { service, process, .. } = self;
        drop(service);
        with_stderr(process, problem.0)
    }

    /// Ends a session that is not needed any more, without waiting for it: the server may end by itself.
    pub fn end(self) {
        let Client { service, process, .. } = self;
        drop(service);
        if let Some(process) = process {
            process.end(END);
        }
    }
}

/// Why something has no result.
enum Miss {
    Late,
    Failed(String),
}

/// Waits for `work`, as long as the session can go on.
fn within<T>(longest: Duration, meter: &Meter, work: impl Future<Output = T>) -> Result<T, Miss> {
    let watched = async {
        match select(pin!(work), pin!(meter.failed())).await {
            Either::Left((done, _)) => Ok(done),
            Either::Right((problem, _)) => Err(Miss::Failed(problem)),
        }
    };
    match block_on(timeout(longest, watched)) {
        Err(error) => Err(Miss::Failed(format!("can't be waited for: {error}"))),
        Ok(None) => Err(Miss::Late),
        Ok(Some(done)) => done,
    }
}

fn with_stderr(process: Option<Conversation>, problem: String) -> Broken {
    match process.map(Conversation::stop).unwrap_or_default() {
        tail if tail.is_empty() => Broken(problem),
        tail => Broken(format!("{problem}; its stderr ends:\n{tail}")),
    }
}

/// What speaks to an address.
fn reach(
    url: &str,
    key: Option<&str>,
    headers: &BTreeMap<String, String>,
    meter: &Meter,
    limits: &Limits,
) -> Result<Web, Broken> {
    let patience = Patience { timeout: limits.start.max(limits.call), retries: 0, wait: Duration::ZERO };
    let server = Server::new(url, key, patience).map_err(|error| Broken(error.to_string()))?;
    let header = |(name, value): (&String, &String)| {
        let wrong = |what: &str| Broken(format!("the header `{name}` {what}"));
        let read =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| wrong("has no name that can be sent"))?;
        let mut value =
            HeaderValue::from_str(value).map_err(|_| wrong("has characters that can't be sent"))?;
        value.set_sensitive(true);
        Ok((read, value))
    };
    let headers = headers.iter().map(header).collect::<Result<_, Broken>>()?;
    let path = if url.ends_with('/') { "/" } else { "" };
    let bytes = usize::try_from(limits.message_bytes).unwrap_or(usize::MAX);
    Ok(Web::new(server, path, headers, meter.clone(), bytes))
}

fn spec(tool: Tool) -> ToolSpec {
    ToolSpec {
        name: tool.name.into_owned(),
        description: tool.description.map(|text| text.into_owned()).unwrap_or_default(),
        parameters: Value::Object(tool.input_schema.as_ref().clone()),
        more: Map::new(),
    }
}

/// What a transport says.
fn told(error: &(dyn Error + Send + Sync + 'static)) -> String {
    match error.downcast_ref::<StreamableHttpError<HttpError>>() {
        Some(StreamableHttpError::Client(error)) => format!("can't be reached: {error}"),
        Some(StreamableHttpError::SessionExpired) => "has forgotten the session (status 404)".to_owned(),
        Some(StreamableHttpError::UnexpectedServerResponse(problem)) => format!("refuses: {problem}"),
        _ => error.to_string(),
    }
}

/// Why a session did not begin.
fn initialising(error: &ClientInitializeError) -> String {
    match error {
        ClientInitializeError::ConnectionClosed(_) => "ended before it said that it is a server".to_owned(),
        ClientInitializeError::TransportError { error, .. } => told(&*error.error),
        ClientInitializeError::JsonRpcError(error) => format!("refuses to begin: {}", error.message),
        other => format!("did not begin as a server does: {other}"),
    }
}

/// Why a request has no answer.
fn asking(error: &ServiceError) -> String {
    match error {
        ServiceError::TransportClosed => "ended without an answer".to_owned(),
        ServiceError::TransportSend(error) => told(&*error.error),
        ServiceError::McpError(error) => format!("refuses: {}", error.message),
        ServiceError::UnexpectedResponse => "answered something else than was asked for".to_owned(),
        other => other.to_string(),
    }
}
