//! Landlock: which files may be read and written, and that signals and sockets stay inside.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, Scope,
    path_beneath_rules,
};

use super::root::{DEVICES, SCRATCH};

/// The newest version whose rules are asked for; an older kernel applies those that it knows.
const NEWEST: ABI = ABI::V6;

/// Gives up all other files, for good. `is_apart`: in a file system of its own, with a scratch folder.
///
/// # Errors
/// If the kernel does not have it.
pub(super) fn restrict(reads: &[PathBuf], is_apart: bool) -> Result<(), String> {
    let ruleset = || -> Result<RulesetStatus, landlock::RulesetError> {
        let read = AccessFs::from_read(NEWEST);
        let write = AccessFs::from_all(NEWEST)
            & !(AccessFs::Execute
                | AccessFs::MakeChar
                | AccessFs::MakeBlock
                | AccessFs::MakeSock
                | AccessFs::IoctlDev);
        let scratch: &[&str] = if is_apart { &[SCRATCH] } else { &[] };
        let device = (AccessFs::ReadFile | AccessFs::WriteFile) & AccessFs::from_all(NEWEST);
        let ruleset = Ruleset::default()
            .handle_access(AccessFs::from_all(NEWEST))?
            .handle_access(AccessNet::from_all(NEWEST))?
            .scope(Scope::from_all(NEWEST))?
            .create()?
            .add_rules(path_beneath_rules(reads, read))?
            .add_rules(path_beneath_rules(scratch, write))?
            .add_rules(path_beneath_rules(DEVICES, device))?;
        Ok(ruleset.restrict_self()?.ruleset)
    };
    match ruleset() {
        Ok(RulesetStatus::NotEnforced) => {
            Err("this kernel does not have it, or it is switched off; it came with \
             Linux 5.13 (`lsm=landlock,...` on the kernel's command line switches it on)"
                .into())
        }
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
