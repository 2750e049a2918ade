//! Errors that end a run.

use burnish_env::{EnvError, rollout::RolloutError};
use burnish_model::{ChatError, ModelError};

use burnish_recipe::RecipeError;
use burnish_rundir::journal::JournalError;

/// A run could not start or continue. Everything that was saved stays as it was.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The recipe is wrong.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// The run directory can't be used.
    #[error(transparent)]
    Directory(#[from] burnish_rundir::run_dir::RunDirError),
    /// A file of the run directory can't be written or read.
    #[error(transparent)]
    File(#[from] burnish_rundir::files::FileError),
    /// The journal can't be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The model directory can't be used.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// A conversation can't be rendered in the policy's format.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// The environment can't make its tasks.
    #[error("environment: {0}")]
    Environment(#[from] EnvError),
    /// Episodes can't be played.
    #[error(transparent)]
    Rollout(#[from] RolloutError),
    /// The device does not exist, or it failed.
    #[error(transparent)]
    Device(#[from] burnish_tensor::DeviceError),
    /// The update failed.
    #[error(transparent)]
    Train(#[from] burnish_train::TrainError),
    /// A checkpoint can't be written or read.
    #[error(transparent)]
    Checkpoint(#[from] burnish_train::checkpoint::CheckpointError),
    /// A data file can't be used.
    #[error(transparent)]
    Data(#[from] burnish_data::DataError),
    /// A server did not answer.
    #[error(transparent)]
    Endpoint(#[from] burnish_http::HttpError),
    /// An engine can't be used.
    #[error(transparent)]
    Engine(#[from] burnish_remote::engine::EngineError),
    /// A server that trains can't be used.
    #[error(transparent)]
    Trainer(#[from] burnish_remote::tinker::TinkerError),
    /// The surgery of `[weights]` can't be carried out.
    #[error("weights: {0}")]
    Weights(#[from] burnish_weights::WeightsError),
    /// A setting of the loss or the advantage is wrong.
    #[error(transparent)]
    Setting(#[from] burnish_rl::SettingError),
    /// A run that makes a policy for this one (`policy.from`, `teacher.from`) failed or can't be used.
    #[error("stage {recipe}: {source}")]
    Stage {
        /// The stage's recipe.
        recipe: String,
        /// What is wrong with it.
        source: Box<RunError>,
    },
    /// What was asked for can't be done.
    #[error("{0}")]
    Refused(String),
}
