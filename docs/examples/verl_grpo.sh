#!/bin/bash
# The run of docs/examples/coming_from_verl.toml as verl 0.9.1 would be asked for it. It needs a GPU and vLLM;
# with `--cfg job` as an argument verl only prints the configuration, which needs neither.
set -euo pipefail
python3 -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    algorithm.norm_adv_by_std_in_grpo=True \
    algorithm.use_kl_in_reward=False \
    data.train_files=docs/examples/problems.parquet \
    data.val_files=docs/examples/problems_eval.parquet \
    data.train_batch_size=4 \
    data.max_prompt_length=256 \
    data.max_response_length=64 \
    data.seed=1 \
    actor_rollout_ref.model.path=models/starter \
    actor_rollout_ref.model.enable_gradient_checkpointing=False \
    actor_rollout_ref.actor.optim.lr=3e-4 \
    actor_rollout_ref.actor.optim.lr_warmup_steps=1 \
    actor_rollout_ref.actor.optim.lr_scheduler_type=constant \
    actor_rollout_ref.actor.optim.betas='[0.9,0.99]' \
    actor_rollout_ref.actor.optim.weight_decay=0.0 \
    actor_rollout_ref.actor.grad_clip=1.0 \
    actor_rollout_ref.actor.ppo_mini_batch_size=4 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16 \
    actor_rollout_ref.actor.ppo_epochs=1 \
    actor_rollout_ref.actor.loss_agg_mode=token-mean \
    actor_rollout_ref.actor.clip_ratio_low=0.2 \
    actor_rollout_ref.actor.clip_ratio_high=0.28 \
    actor_rollout_ref.actor.use_kl_loss=True \
    actor_rollout_ref.actor.kl_loss_coef=0.01 \
    actor_rollout_ref.actor.kl_loss_type=low_var_kl \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.temperature=1.0 \
    actor_rollout_ref.rollout.tensor_model_parallel_size=1 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=16 \
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=16 \
    reward.custom_reward_function.path=docs/examples/verl_reward.py \
    reward.custom_reward_function.name=compute_score \
    trainer.n_gpus_per_node=1 \
    trainer.total_training_steps=4 \
    trainer.test_freq=4 \
    trainer.save_freq=4 \
    trainer.max_actor_ckpt_to_keep=2 \
    trainer.default_local_dir=runs/verl-grpo \
    trainer.logger='[console]' \
    hydra.run.dir=runs/verl-grpo/hydra \
    "$@"
