//! What one episode has of the servers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use burnish_core::FunctionCall;
use burnish_mcp::Client;
use serde_json::Value;

use super::pool::Servers;
use super::workspace::Workspace;
use crate::EnvError;

/// The sessions and folders of one episode. A session begins with the first call that needs it.
#[derive(Debug)]
pub(crate) struct Hands {
    servers: Arc<Servers>,
    /// Sessions with servers that have state, by the server's number.
    sessions: BTreeMap<usize, Client>,
    workspaces: BTreeMap<usize, Workspace>,
}

impl Hands {
    pub(crate) fn new(servers: Arc<Servers>) -> Self {
        Hands { servers, sessions: BTreeMap::new(), workspaces: BTreeMap::new() }
    }

    /// The servers themselves.
    pub(crate) fn servers(&self) -> &Servers {
        &self.servers
    }

    /// Forgets the episode before.
    pub(crate) fn begin(&mut self) {
        for (at, client) in std::mem::take(&mut self.sessions) {
            self.servers.all[at].give_back(client);
        }
        self.workspaces.clear();
    }

    /// Calls a tool of a server. What the server refuses is a result.
    ///
    /// # Errors
    /// If the server fails.
    pub(crate) fn call(&mut self, call: &FunctionCall, key: &str) -> Result<String, EnvError> {
        let name = &call.name;
        let at = self
            .servers
            .owner(name)
            .ok_or_else(|| EnvError::Failed(format!("no server has the tool `{name}`")))?;
        let mut arguments = call.arguments.clone();
        if let Some(workspace) = self.workspace(at)? {
            workspace.meant(&mut arguments);
        }
        let Value::Object(arguments) = arguments else {
            return Err(EnvError::Failed(format!("the arguments of `{name}` are no object")));
        };
        let served = &self.servers.all[at];
        let workspace = self.workspaces.get(&at);
        let mut client = match self.sessions.remove(&at) {
            Some(client) => client,
            None => served.take(self.servers.folder(), workspace)?,
        };
        match client.call(name, &arguments, key) {
            Ok(reply) => {
                match served.config.has_state() {
                    true => drop(self.sessions.insert(at, client)),
                    false => served.give_back(client),
                }
                Ok(workspace.map(|workspace| workspace.shown(&reply.text)).unwrap_or(reply.text))
            }
            Err(problem) => Err(served.problem(&client.stop(problem).0)),
        }
    }

    /// The folders of the episode, by the server's name. One that no call has needed is made now.
    ///
    /// # Errors
    /// If one can't be made.
    pub(crate) fn workspaces(&mut self) -> Result<BTreeMap<String, PathBuf>, EnvError> {
        let mut folders = BTreeMap::new();
        for at in 0..self.servers.all.len() {
            let path = self.workspace(at)?.map(|workspace| workspace.path().to_owned());
            folders.extend(path.map(|path| (self.servers.all[at].name.clone(), path)));
        }
        Ok(folders)
    }

    fn workspace(&mut self, at: usize) -> Result<Option<&Workspace>, EnvError> {
        if !self.workspaces.contains_key(&at)
            && let Some(workspace) = self.servers.all[at].workspace(self.servers.folder())?
        {
            self.workspaces.insert(at, workspace);
        }
        Ok(self.workspaces.get(&at))
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        self.begin();
    }
}
