//! A real SGLang samples for runs. `BURNISH_SGLANG` is the address of one that serves the policy in `BURNISH_SGLANG_MODEL`
//! in f32, as `scripts/check_sglang.sh` starts it; without them, the test is skipped.

use crate::common;
use crate::common::Scratch;
use crate::engine_runs;

#[test]
fn sglang_samples_for_a_run_and_the_trainer_agrees_with_its_log_probs() {
    let (Ok(url), Ok(model)) = (std::env::var("BURNISH_SGLANG"), std::env::var("BURNISH_SGLANG_MODEL"))
    else {
        println!("skipped: BURNISH_SGLANG names no server of SGLang");
        return;
    };
    let scratch = Scratch::new();
    let policy = format!("path = {:?}", std::path::absolute(model).unwrap());
    scratch.write("grpo.toml", common::TINY_GRPO.replace("path = \"tiny/checkpoints/step_120\"", &policy));
    engine_runs::agree(
        &scratch,
        "sglang",
        &url,
        &[("grpo", &[]), ("cold", &["run.dir=cold", "rollout.temperature=0.7"])],
    );
}
