//! The transport over stdin and stdout: a message per line.

use std::future::ready;
use std::io;

use burnish_core::json;
use burnish_http::shortened;
use burnish_sandbox::Speaker;
use rmcp::RoleClient;
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc::Receiver;

use crate::meter::Meter;

/// Lines to a process and from it.
pub(crate) struct Lines {
    speaker: Option<Speaker>,
    heard: Receiver<Result<String, String>>,
    meter: Meter,
}

impl Lines {
    pub(crate) fn new(speaker: Speaker, heard: Receiver<Result<String, String>>, meter: Meter) -> Self {
        Lines { speaker: Some(speaker), heard, meter }
    }

    fn say(&self, message: &ClientJsonRpcMessage) -> io::Result<()> {
        let line = json::text(message)?;
        match self.speaker.as_ref().is_some_and(|speaker| speaker.say(line)) {
            true => Ok(()),
            false => {
                self.meter.fail("does not read its stdin".to_owned());
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
    }

    /// The message on a line.
    ///
    /// # Errors
    /// Why there is none.
    fn read(&self, line: Result<String, String>) -> Result<ServerJsonRpcMessage, String> {
        let text = line.map_err(|problem| format!("wrote output that can't be read: {problem}"))?;
        json::read(&text).map_err(|error| {
            format!(
                "wrote a line that is no message of the protocol ({error}); nothing else may go to stdout: {}",
                shortened(&text)
            )
        })
    }
}

impl Transport<RoleClient> for Lines {
    type Error = io::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        ready(self.say(&item))
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            let line = self.heard.recv().await?;
            if line.as_ref().is_ok_and(|text| text.trim().is_empty()) {
                continue;
            }
            if !self.meter.allows(line.as_ref().map_or(0, String::len)) {
                return None;
            }
            return self.read(line).map_err(|fault| self.meter.fail(fault)).ok();
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.speaker = None;
        self.heard.close();
        Ok(())
    }
}
