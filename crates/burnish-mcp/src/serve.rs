//! Tools of ours, for clients of the protocol: over stdin and stdout.

use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use burnish_core::ToolSpec;
use burnish_http::block_on;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, serve_server};
use serde_json::{Map, Value};
use tokio::sync::oneshot;

/// Whatever has tools. It is asked one thing after the other, on a thread of its own, and may take its time.
pub trait Tools: Send + 'static {
    /// The tools that there are now.
    fn tools(&self) -> Vec<ToolSpec>;

    /// Runs one and returns its result.
    ///
    /// # Errors
    /// Why there is none; the client reads it as a result that is an error.
    fn call(&mut self, name: &str, arguments: Map<String, Value>) -> Result<String, String>;
}

/// What the thread that has the tools is asked.
enum Asked {
    Tools(oneshot::Sender<Vec<ToolSpec>>),
    Call(String, Map<String, Value>, oneshot::Sender<Result<String, String>>),
}

/// Carries requests to the thread that has the tools.
struct Serving {
    name: String,
    instructions: String,
    asked: Sender<Asked>,
}

/// Serves tools to the client at stdin and stdout, until it leaves. Nothing else may be written to stdout.
///
/// # Errors
/// If there is no thread for it, or the client does not begin as one does.
pub fn serve_stdio(name: &str, instructions: &str, mut tools: impl Tools) -> io::Result<()> {
    let (asked, questions) = channel();
    thread::Builder::new().name("tools".into()).spawn(move || {
        for question in questions {
            // A client that has gone does not wait for its answer.
            match question {
                Asked::Tools(answer) => drop(answer.send(tools.tools())),
                Asked::Call(name, arguments, answer) => drop(answer.send(tools.call(&name, arguments))),
            }
        }
    })?;
    let serving = Serving { name: name.to_owned(), instructions: instructions.to_owned(), asked };
    block_on(async {
        let service = serve_server(serving, stdio()).await.map_err(io::Error::other)?;
        service.waiting().await.map(drop).map_err(io::Error::other)
    })?
}

impl Serving {
    async fn ask<T>(&self, question: impl FnOnce(oneshot::Sender<T>) -> Asked) -> Result<T, ErrorData> {
        let (answer, answered) = oneshot::channel();
        let gone = |_| ErrorData::internal_error("what has the tools is gone", None);
        self.asked.send(question(answer)).map_err(|_| gone(()))?;
        answered.await.map_err(|_| gone(()))
    }
}

impl ServerHandler for Serving {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(self.name.clone(), env!("CARGO_PKG_VERSION")))
            .with_instructions(self.instructions.clone())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.ask(Asked::Tools).await?;
        Ok(ListToolsResult::with_all_items(tools.into_iter().map(tool).collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments = request.arguments.unwrap_or_default();
        let called = self.ask(|answer| Asked::Call(request.name.into_owned(), arguments, answer)).await?;
        let result = match called {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(problem) => CallToolResult::error(vec![ContentBlock::text(problem)]),
        };
        Ok(result.into())
    }
}

fn tool(spec: ToolSpec) -> Tool {
    let schema = match spec.parameters {
        Value::Object(schema) => schema,
        _ => Map::from_iter([("type".to_owned(), "object".into())]),
    };
    Tool::new(spec.name, spec.description, schema)
}
