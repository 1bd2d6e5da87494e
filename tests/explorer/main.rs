//! Walks over all plans of faults, or plays one again.
//!
//! ```sh
//! cargo run -p locker-tests --bin explorer -- --clients 1 --depth 8
//! cargo run -p locker-tests --bin explorer -- --random 100000 --seed 7 --depth 20
//! cargo run -p locker-tests --bin explorer -- --scenario 2/complete/take-over --plan 0.1.3
//! cargo run -p locker-tests --bin explorer -- --workflows --clients 2 --depth 1
//! cargo run -p locker-tests --bin explorer -- --scene token-is-gone
//! ```

#![allow(clippy::print_stdout)]

use std::fmt::Display;
use std::process::ExitCode;
use std::str::FromStr;

use clap::Parser;
use locker_tests::explorer::{
    ALL, Bounds, Choices, Explored, FEW, Plan, Playable, Scene, endings, explore, explore_random, scenarios,
    workflow_scenarios,
};
use tokio::time::Instant;

/// Walk over all plans of faults to a depth, and check each against the invariants.
#[derive(Debug, Parser)]
struct Arguments {
    /// Play workflows instead of tokens. The depth is then how often something goes otherwise than
    /// usual.
    #[arg(long)]
    workflows: bool,
    /// Play the endings of workflows: every pair of ways in which code treats two steps.
    #[arg(long, conflicts_with = "workflows")]
    endings: bool,
    /// 1 client, or 2 that interleave.
    #[arg(long, default_value_t = 1)]
    clients: usize,
    /// The number of exchanges with faults; after it everything goes well.
    #[arg(long, default_value_t = 5)]
    depth: usize,
    /// Play every plan to its end, even where another plan was in the same state.
    #[arg(long)]
    every_plan: bool,
    /// Play only one of each kind of fault that the table cannot distinguish.
    #[arg(long)]
    few: bool,
    /// Play only this scenario, such as 2/complete/take-over.
    #[arg(long)]
    scenario: Option<String>,
    /// Play this plan and print what happens in it.
    #[arg(long, requires = "scenario")]
    plan: Option<Plan>,
    /// Play this scene, such as token-is-gone, instead of plans.
    #[arg(long, conflicts_with_all = ["scenario", "workflows"])]
    scene: Option<String>,
    /// Play this many random plans instead of all plans.
    #[arg(long)]
    random: Option<u64>,
    /// The seed of the first random plan; each plan has the next.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(name) = &arguments.scene {
        return play_scene(name);
    }
    if arguments.endings {
        play(&arguments, endings())
    } else if arguments.workflows {
        play(&arguments, workflow_scenarios(arguments.clients))
    } else {
        play(&arguments, scenarios(arguments.clients))
    }
}

/// Exit code of a plan or a scene that could not be played.
const NOT_PLAYED: u8 = 2;

fn play_scene(name: &str) -> ExitCode {
    let Some(scene) = Scene::named(name) else {
        println!("no scene has the name {name}");
        return ExitCode::from(NOT_PLAYED);
    };
    match (scene.play)() {
        Ok(()) => ExitCode::SUCCESS,
        Err(seen) => {
            println!("BROKEN {name}: {seen}");
            ExitCode::FAILURE
        }
    }
}

fn play<S>(arguments: &Arguments, all: Vec<S>) -> ExitCode
where
    S: Playable + Display + FromStr<Err = String>,
{
    let bounds = Bounds { depth: arguments.depth, fates: if arguments.few { FEW } else { ALL } };
    let chosen = match arguments.scenario.as_deref().map(str::parse).transpose() {
        Ok(scenario) => scenario.map_or(all, |scenario| vec![scenario]),
        Err(error) => {
            println!("{error}");
            return ExitCode::from(NOT_PLAYED);
        }
    };
    if let (Some(plan), [scenario]) = (&arguments.plan, &chosen[..]) {
        let (played, choices) =
            scenario.play(&mut S::Rig::default(), Choices::from_plan(plan), bounds, None, true);
        played.trace.iter().for_each(|line| println!("{line}"));
        if choices.plan() != *plan {
            println!("the plan has choices that do not occur: only {} was played", choices.plan());
            return ExitCode::from(NOT_PLAYED);
        }
        played.violations.iter().for_each(|violation| println!("BROKEN {violation}"));
        return if played.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let began = Instant::now();
    let tell = |explored: &Explored<S>| {
        let Explored { scenario, plans, merged, exchanges, longest, broken } = explored;
        let seconds = began.elapsed().as_secs();
        println!(
            "{scenario}: {plans} plans, {merged} merged, {exchanges} exchanges, {longest} in the longest, after {seconds} s"
        );
        if let Some((plan, violation)) = broken {
            println!("  BROKEN {violation}");
            let workflows = if arguments.workflows || arguments.endings { "--workflows " } else { "" };
            let few = if arguments.few { " --few" } else { "" };
            let depth = arguments.depth;
            println!("  play it again: {workflows}--scenario {scenario} --depth {depth}{few} --plan {plan}");
        }
    };
    let explored: Vec<_> = match arguments.random {
        Some(plans) => explore_random(&chosen, bounds, arguments.seed, plans, tell),
        None => explore(&chosen, bounds, !arguments.every_plan, tell),
    };
    let broken = explored.iter().filter(|explored| explored.broken.is_some()).count();
    let plans: u64 = explored.iter().map(|explored| explored.plans).sum();
    let exchanges: u64 = explored.iter().map(|explored| explored.exchanges).sum();
    println!("{} scenarios, {broken} broken, {plans} plans, {exchanges} exchanges", explored.len());
    if broken == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
