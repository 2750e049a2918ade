//! Environments and players as a run uses them: recomputed answers, real data sets, real programs.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod agent;
mod associative;
mod bridges;
mod chains;
mod chains_rewards;
mod command;
mod command_failures;
mod commanded;
mod countdown;
mod episodes;
mod mapped;
mod openenv;
mod recall;
mod rollout;
mod rows;
mod rows_choice;
mod rows_language;
mod rows_pool;
mod same_tasks;
mod scenes;
mod servers;
mod stand_in;
mod tables;
mod tables_real;
mod timed_facts;
mod timeqa;
mod ways;
