//! Vectors of the queue by eligibility and deadline, and of the shares of groups.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::group::{GroupLoad, calc_group_shares};
use crate::kernels::eevdf::{
    Candidate, PlaceRules, VirtualClock, entity_lag, next_deadline, pick_eevdf, place, reweight_eevdf,
};
use crate::load_weight::{LoadWeight, SCHED_PRIO_TO_WEIGHT, SCHED_PRIO_TO_WMULT, inverse_of, scale_load};
use crate::pelt::SchedAvg;
use crate::sim::rq::{SchedEntity, TaskId};
use crate::sim::timeline::Timeline;

/// Replays one case of a family of this file.
pub fn check(family: &str, line: &str) -> Result<(), String> {
    match family {
        "eevdf_state" => check_state(&parse(line)?),
        "eevdf_place" => check_place(&parse(line)?),
        "eevdf_deadline" => check_deadline(&parse(line)?),
        "eevdf_reweight" => check_reweight(&parse(line)?),
        "group_shares" => check_group_shares(&parse(line)?),
        _ => Err(format!("no family of queues by deadline is called {family}")),
    }
}

/// `[load.weight, vruntime, deadline, slice]`.
type Entity = (u64, u64, u64, u64);

#[derive(Deserialize)]
#[expect(non_snake_case, reason = "the fields are the vectors'")]
struct State {
    id: String,
    tick: u64,
    v0: u64,
    curr: i64,
    prot: u8,
    e: Vec<Entity>,
    sum: i64,
    load: i64,
    V: u64,
    elig: Vec<u8>,
    vlag: Vec<i64>,
    pick: i64,
    pick_rtp: i64,
}

/// A queue with its sums: average, eligibility, lags and picks.
fn check_state(case: &State) -> Result<(), String> {
    let queue = Queue::new(&case.id, case.v0, case.curr, &case.e)?;
    let same = |what: &str, expected: &dyn std::fmt::Debug, got: &dyn std::fmt::Debug| {
        same(&format!("{}: {what}", case.id), &format!("{expected:?}"), &format!("{got:?}"))
    };
    same("sum and load", &(case.sum, case.load), &(queue.clock.avg_vruntime, queue.clock.avg_load))?;
    let clock = queue.clock_with_curr();
    same("V", &case.V, &clock.avg_vruntime())?;
    let eligible: Vec<u8> =
        queue.entities.iter().map(|se| u8::from(clock.entity_eligible(se.vruntime))).collect();
    same("elig", &case.elig, &eligible)?;
    let lags: Vec<i64> = queue.entities.iter().map(|se| entity_lag(case.V, se, case.tick)).collect();
    same("vlag", &case.vlag, &lags)?;
    let pick = |protected: bool| {
        let queued = queue.timeline.iter().map(|(_, idx)| queue.candidate(idx));
        let curr = queue.curr.map(|idx| queue.candidate(idx));
        pick_eevdf(&clock, curr, protected, queued).map_or(-1, i64::from)
    };
    same("pick", &case.pick, &pick(false))?;
    same("pick_rtp", &case.pick_rtp, &pick(case.prot != 0))
}

#[derive(Deserialize)]
#[expect(non_snake_case, reason = "the fields are the vectors'")]
struct Place {
    id: String,
    base_slice: u64,
    initial: u8,
    v0: u64,
    curr: i64,
    e: Vec<Entity>,
    new: New,
    V: u64,
    vr: u64,
    dl: u64,
    slice: u64,
    V_after: u64,
    lag_after: i64,
}

#[derive(Deserialize)]
struct New {
    w: u64,
    vlag: i64,
    slice: u64,
    custom: u8,
    rel: u8,
    rel_dl: i64,
}

/// Where an entity enters a queue, and the average after it.
fn check_place(case: &Place) -> Result<(), String> {
    let queue = Queue::new(&case.id, case.v0, case.curr, &case.e)?;
    let clock = queue.clock_with_curr();
    same(&format!("{}: V", case.id), &case.V, &clock.avg_vruntime())?;
    let mut se = entity(&(case.new.w, 0, case.new.rel_dl as u64, case.new.slice));
    se.vlag = case.new.vlag;
    se.custom_slice = case.new.custom != 0;
    se.rel_deadline = case.new.rel != 0;
    let rules = PlaceRules {
        base_slice_ns: case.base_slice,
        keep_lag: !case.e.is_empty(),
        keep_deadline: true,
        half_slice: case.initial != 0,
    };
    let placed = place(&clock, &se, rules);
    let got = (placed.vruntime, placed.deadline, placed.slice_ns);
    same(&format!("{}: vr, dl, slice", case.id), &(case.vr, case.dl, case.slice), &got)?;
    let after = clock.with(placed.vruntime, se.weight).avg_vruntime();
    let got = (after, after.wrapping_sub(placed.vruntime) as i64);
    same(&format!("{}: V_after, lag_after", case.id), &(case.V_after, case.lag_after), &got)
}

#[derive(Deserialize)]
struct Deadline {
    base_slice: u64,
    w: u64,
    vr: u64,
    dl: u64,
    slice: u64,
    custom: u8,
    ret: u8,
    dl_out: u64,
    slice_out: u64,
}

/// Whether a request was served, and the next one.
fn check_deadline(case: &Deadline) -> Result<(), String> {
    let mut se = entity(&(case.w, case.vr, case.dl, case.slice));
    se.custom_slice = case.custom != 0;
    let renewed = next_deadline(&se, case.base_slice);
    let (deadline, slice) = renewed.unwrap_or((se.deadline, se.slice_ns));
    let id = format!("w {} vr {} dl {}", case.w, case.vr, case.dl);
    let expected = (case.ret, case.dl_out, case.slice_out);
    same(&id, &expected, &(u8::from(renewed.is_some()), deadline, slice))
}

#[derive(Deserialize)]
#[expect(non_snake_case, reason = "the fields are the vectors'")]
struct Reweight {
    tick: u64,
    V: u64,
    w: u64,
    vr: u64,
    dl: u64,
    slice: u64,
    new_w: u64,
    vr_out: u64,
    dl_out: u64,
}

/// A queued entity under another weight.
fn check_reweight(case: &Reweight) -> Result<(), String> {
    let se = entity(&(case.w, case.vr, case.dl, case.slice));
    let got = reweight_eevdf(case.V, &se, case.new_w, case.tick);
    let id = format!("V {} w {} vr {} new_w {}", case.V, case.w, case.vr, case.new_w);
    same(&id, &(case.vr_out, case.dl_out), &got)
}

#[derive(Deserialize)]
struct GroupShares {
    tg_shares: i64,
    w: u64,
    load_avg: u64,
    tg_load_avg: i64,
    contrib: u64,
    shares: u64,
}

/// The part of a group's shares that one CPU gets.
fn check_group_shares(case: &GroupShares) -> Result<(), String> {
    let group = GroupLoad {
        tg_shares: case.tg_shares,
        weight: case.w,
        load_avg: case.load_avg,
        tg_load_avg: case.tg_load_avg,
        tg_load_avg_contrib: case.contrib,
    };
    same(&format!("{group:?}"), &case.shares, &calc_group_shares(&group))
}

/// The queue of a case.
struct Queue {
    entities: Vec<SchedEntity>,
    /// Index of the running entity, which does not wait.
    curr: Option<TaskId>,
    timeline: Timeline,
    clock: VirtualClock,
}

impl Queue {
    fn new(id: &str, v0: u64, curr: i64, entities: &[Entity]) -> Result<Self, String> {
        let curr = match curr {
            -1 => None,
            idx if (0..entities.len() as i64).contains(&idx) => Some(idx as TaskId),
            _ => return Err(format!("{id}: curr {curr} is none of {} entities, nor -1", entities.len())),
        };
        let entities: Vec<SchedEntity> = entities.iter().map(entity).collect();
        let mut timeline = Timeline::default();
        let mut clock = VirtualClock::new(v0);
        for (idx, se) in (0..).zip(&entities).filter(|&(idx, _)| Some(idx) != curr) {
            timeline.insert(se.deadline, idx);
            clock.add(se.vruntime, se.weight);
        }
        Ok(Self { entities, curr, timeline, clock })
    }

    fn clock_with_curr(&self) -> VirtualClock {
        match self.curr {
            Some(idx) => {
                let se = &self.entities[idx as usize];
                self.clock.with(se.vruntime, se.weight)
            }
            None => self.clock,
        }
    }

    fn candidate(&self, idx: TaskId) -> Candidate<TaskId> {
        let se = &self.entities[idx as usize];
        Candidate { id: idx, vruntime: se.vruntime, deadline: se.deadline }
    }
}

/// An entity of a case. The kernel has the inverse of a nice level's weight in a table and computes any other.
fn entity(&(weight, vruntime, deadline, slice_ns): &Entity) -> SchedEntity {
    let nice = SCHED_PRIO_TO_WEIGHT.iter().position(|&unscaled| scale_load(unscaled) == weight);
    let inv_weight = nice.map_or_else(|| inverse_of(weight), |nice| SCHED_PRIO_TO_WMULT[nice]);
    let mut se = SchedEntity::new(LoadWeight { weight, inv_weight }, SchedAvg::default());
    se.vruntime = vruntime;
    se.deadline = deadline;
    se.slice_ns = slice_ns;
    se
}

/// A case from its JSON text.
fn parse<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    serde_json::from_str(line).map_err(|error| format!("not a case: {error}"))
}

/// Whether two results are the same, and if not, what differs.
fn same<T: PartialEq + std::fmt::Debug>(id: &str, expected: &T, got: &T) -> Result<(), String> {
    if expected == got { Ok(()) } else { Err(format!("{id}: expected {expected:?}, got {got:?}")) }
}
