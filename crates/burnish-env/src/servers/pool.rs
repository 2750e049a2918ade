//! The sessions with servers that wait for an episode.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use burnish_core::{Repeating, ToolSpec};
use burnish_mcp::{Broken, Client};
use burnish_sandbox::find_program;

use super::config::ServerConfig;
use super::workspace::Workspace;
use crate::EnvError;
use crate::settings::config_error;

/// The servers of a configuration. Shared by all environments of a generator.
#[derive(Debug, Default)]
pub(crate) struct Servers {
    pub(super) all: Vec<Served>,
    /// Where programs run and folders are looked up.
    folder: Option<PathBuf>,
}

/// A server, with its idle sessions.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) name: String,
    pub(super) config: ServerConfig,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Only of servers without state; the one that came back last is taken first.
    idle: Vec<Client>,
    /// The tools that the first session had. Every other one must have the same.
    tools: Option<Vec<ToolSpec>>,
}

impl Servers {
    /// The servers of a configuration; none is started. Programs run in `folder`.
    ///
    /// # Errors
    /// If a key is missing or out of bounds, or there is no such program or folder.
    pub(crate) fn new(
        configs: &BTreeMap<String, ServerConfig>,
        folder: Option<&Path>,
    ) -> Result<Self, EnvError> {
        for (name, config) in configs {
            let key = format!("servers.{name}");
            config.check(&key)?;
            if config.url.is_none() {
                find_program(&config.command, folder).map_err(|error| {
                    let place = folder.map(|folder| format!(" in {}", folder.display())).unwrap_or_default();
                    let command = config.command.join(" ");
                    config_error(
                        &format!("{key}.command"),
                        &format!("`{command}` can't be started{place}: {error}"),
                    )
                })?;
            }
            if let Some(workspace) = config.workspace(folder).filter(|path| !path.is_dir()) {
                let problem = format!("there is no folder `{}`", workspace.display());
                return Err(config_error(&format!("{key}.workspace"), &problem));
            }
        }
        let served = |(name, config): (&String, &ServerConfig)| Served {
            name: name.clone(),
            config: config.clone(),
            state: Mutex::default(),
        };
        Ok(Servers { all: configs.iter().map(served).collect(), folder: folder.map(Path::to_owned) })
    }

    /// Starts each server once.
    ///
    /// # Errors
    /// If one can't be started, has no tools, or has a tool whose name another one has.
    pub(crate) fn ready(&self) -> Result<(), EnvError> {
        self.tools().map(drop)
    }

    /// The tools of all servers. Starts those that have not been started yet.
    ///
    /// # Errors
    /// As [`Servers::ready`].
    pub(crate) fn tools(&self) -> Result<Vec<ToolSpec>, EnvError> {
        let mut all: Vec<ToolSpec> = Vec::new();
        let mut owners: BTreeMap<String, &str> = BTreeMap::new();
        for served in &self.all {
            for tool in served.tools(self.folder.as_deref())? {
                if let Some(other) = owners.insert(tool.name.clone(), &served.name) {
                    return Err(EnvError::Failed(format!(
                        "the servers `{other}` and `{}` both have a tool `{}`: leave it out of one of them, by naming the \
                         others in `servers.{}.tools`",
                        served.name, tool.name, served.name
                    )));
                }
                all.push(tool);
            }
        }
        Ok(all)
    }

    /// The server that has a tool, by number.
    pub(super) fn owner(&self, tool: &str) -> Option<usize> {
        self.all.iter().position(|served| {
            served.state().tools.as_ref().is_some_and(|tools| tools.iter().any(|known| known.name == tool))
        })
    }

    /// What repeating a call of a tool means; `None` if no server has it.
    pub(crate) fn repeating(&self, tool: &str) -> Option<Repeating> {
        self.owner(tool).map(|at| self.all[at].config.repeating())
    }

    /// Most episodes at the same time.
    pub(crate) fn at_once(&self) -> Option<usize> {
        self.all.iter().map(|served| served.config.workers).min()
    }

    /// The files that decide what servers do.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.all.iter().flat_map(|served| served.config.files(self.folder.as_deref())).collect()
    }

    /// Are there none?
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Where programs run.
    pub(super) fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }
}

impl Served {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A problem with this server.
    pub(super) fn problem(&self, problem: &str) -> EnvError {
        EnvError::Failed(format!("the server `{}` {problem}", self.name))
    }

    /// The tools that the policy gets.
    fn tools(&self, folder: Option<&Path>) -> Result<Vec<ToolSpec>, EnvError> {
        if let Some(tools) = &self.state().tools {
            return Ok(tools.clone());
        }
        let workspace = self.workspace(folder)?;
        let client = self.start(folder, workspace.as_ref())?;
        self.give_back(client);
        Ok(self.state().tools.clone().unwrap_or_default())
    }

    /// A copy of the folder that an episode gets, if it gets one.
    pub(super) fn workspace(&self, folder: Option<&Path>) -> Result<Option<Workspace>, EnvError> {
        let from = self.config.workspace(folder);
        from.map(|from| Workspace::copy_of(&from)).transpose().map_err(EnvError::Failed)
    }

    /// A session that no other episode uses.
    ///
    /// # Errors
    /// If none can be begun, or the server has not the tools that it had.
    pub(super) fn take(
        &self,
        folder: Option<&Path>,
        workspace: Option<&Workspace>,
    ) -> Result<Client, EnvError> {
        loop {
            let Some(mut client) = self.state().idle.pop() else { return self.start(folder, workspace) };
            if client.is_running() {
                return Ok(client);
            }
        }
    }

    fn start(&self, folder: Option<&Path>, workspace: Option<&Workspace>) -> Result<Client, EnvError> {
        let broken = |Broken(problem)| self.problem(&problem);
        let address = self
            .config
            .address(folder, workspace.map(Workspace::path))
            .map_err(|problem| EnvError::Failed(format!("the server `{}`: {problem}", self.name)))?;
        let client = Client::start(&address, &self.config.limits()).map_err(broken)?;
        let tools = match self.offered(client.tools(), workspace) {
            Ok(tools) => tools,
            Err(problem) => return Err(broken(client.stop(Broken(problem)))),
        };
        let mut state = self.state();
        let first = state.tools.get_or_insert_with(|| tools.clone());
        if *first != tools {
            drop(state);
            let problem =
                "does not have the tools that it had at first, so episodes would not be the same again";
            return Err(broken(client.stop(Broken(problem.to_owned()))));
        }
        drop(state);
        Ok(client)
    }

    /// Those tools of a session that the policy gets.
    fn offered(&self, tools: &[ToolSpec], workspace: Option<&Workspace>) -> Result<Vec<ToolSpec>, String> {
        if let Some(twice) = tools
            .iter()
            .enumerate()
            .find(|(at, tool)| tools[..*at].iter().any(|other| other.name == tool.name))
        {
            return Err(format!("has two tools of the name `{}`", twice.1.name));
        }
        let shown = |tool: &ToolSpec| {
            let description = match workspace {
                Some(workspace) => workspace.shown(&tool.description),
                None => tool.description.clone(),
            };
            ToolSpec { description, ..tool.clone() }
        };
        let offered: Vec<ToolSpec> = match &self.config.tools {
            None => tools.iter().map(shown).collect(),
            Some(names) => {
                let find = |name: &String| {
                    tools.iter().find(|tool| tool.name == *name).map(shown).ok_or_else(|| {
                        let known: Vec<String> =
                            tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
                        let key = format!("servers.{}.tools", self.name);
                        format!("has no tool `{name}`, which `{key}` names; it has {}", known.join(", "))
                    })
                };
                names.iter().map(find).collect::<Result<_, _>>()?
            }
        };
        match offered.is_empty() {
            true => Err("has no tools".to_owned()),
            false => Ok(offered),
        }
    }

    /// Takes back a session that is not needed now.
    pub(super) fn give_back(&self, client: Client) {
        if self.config.has_state() {
            return client.end();
        }
        client.restart();
        let mut state = self.state();
        match state.idle.len() < self.config.workers {
            true => state.idle.push(client),
            false => {
                drop(state);
                client.end();
            }
        }
    }
}
