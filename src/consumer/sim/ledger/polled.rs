//! What programs that poll were given, and what they have committed.

use super::{Generation, Ledger, advance};

/// What one generation has handed out.
#[derive(Default)]
pub(super) struct Handed {
    /// One past the last message, from the start of the generation on.
    past: i64,
    offsets: Vec<i64>,
    /// If the program commits: up to where it knows that this is stored.
    known: Option<i64>,
}

impl Handed {
    /// What will not come again after a clean end.
    pub(super) fn kept(&self) -> Option<Vec<i64>> {
        let known = self.known?;
        Some(self.offsets.iter().copied().filter(|offset| *offset < known).collect())
    }
}

impl Ledger {
    /// A program gets a message. Nothing of its queue may be left out before it but what the filter does not want.
    pub(in crate::consumer::sim) fn handed(&mut self, id: u64, offset: i64) {
        self.delivered(id, offset);
        let name = self.short(id);
        let Some(generation) = self.generations.get_mut(&id) else { return };
        let (start, open) = (generation.start, generation.open);
        let past = start + generation.handed.past;
        let left_out =
            |at: &i64| !generation.finished.get((at - start) as usize).copied().unwrap_or_default();
        let left_out = (past..offset).find(left_out);
        generation.handed.past = offset + 1 - start;
        generation.handed.offsets.push(offset);
        if let Some(left_out) = left_out {
            self.break_promise(1, || format!("{offset} of {name} is handed out, and {left_out} never was"));
        }
        if offset < past || !open {
            self.break_promise(3, || {
                format!("{offset} of {name} is handed out after {past}, the generation being open: {open}")
            });
        }
    }

    /// What the program got of this generation counts as done.
    pub(in crate::consumer::sim) fn allow(&mut self, id: u64) {
        let done: Vec<_> = self.in_hand.range((id, i64::MIN)..=(id, i64::MAX)).copied().collect();
        self.are_done(done);
    }

    /// The program of this member is done with everything that it was given, of a generation before the present one too.
    pub(in crate::consumer::sim) fn allow_all(&mut self, member: usize) {
        let is_its = |id: &u64| self.generations.get(id).is_some_and(|one| one.member == member);
        let done: Vec<_> = self.in_hand.iter().filter(|(id, _)| is_its(id)).copied().collect();
        self.are_done(done);
    }

    /// The same of one queue, below `until`.
    pub(in crate::consumer::sim) fn allow_below(&mut self, member: usize, queue: usize, until: i64) {
        let is_its =
            |id: &u64| self.generations.get(id).is_some_and(|one| one.member == member && one.queue == queue);
        let done = self.in_hand.iter().filter(|(id, offset)| *offset < until && is_its(id));
        let done: Vec<_> = done.copied().collect();
        self.are_done(done);
    }

    fn are_done(&mut self, done: Vec<(u64, i64)>) {
        for (id, offset) in done {
            self.given_back(id, offset);
            self.accept(id, offset, true);
        }
    }

    /// A generation goes on for the one before it: what the program has got of that one, it still has, and nothing of it
    /// comes again.
    pub(in crate::consumer::sim) fn goes_on(&mut self, member: usize, queue: usize) {
        let its = |one: &Generation| one.member == member && one.queue == queue;
        let mut all = self.generations.iter_mut().rev().filter(|(_, one)| its(one));
        let (Some((id, new)), Some((former, old))) = (all.next(), all.next()) else { return };
        let (id, former) = (*id, *former);
        (new.start, new.since, new.low) = (old.start, old.since, old.low);
        new.finished = std::mem::take(&mut old.finished);
        new.accepted = std::mem::take(&mut old.accepted);
        new.handed = std::mem::take(&mut old.handed);
        self.followed.insert(former, id);
        let in_hand: Vec<i64> =
            self.in_hand.range((former, i64::MIN)..=(former, i64::MAX)).map(|(_, offset)| *offset).collect();
        for offset in in_hand {
            self.in_hand.remove(&(former, offset));
            self.in_hand.insert((id, offset));
        }
    }

    /// The generation that goes on for this one, if one does.
    fn present(&self, mut id: u64) -> u64 {
        while let Some(next) = self.followed.get(&id) {
            id = *next;
        }
        id
    }

    /// The program wants this stored, be it less than before. What is above it comes again, whether it hears of it or not.
    pub(in crate::consumer::sim) fn program_commits(&mut self, id: u64, to: i64) {
        let id = self.present(id);
        let queue = self.queue_of(id);
        if let Some(generation) = self.generations.get_mut(&id) {
            generation.handed.known = generation.handed.known.map(|known| known.min(to));
        }
        // The same goes for what others had done.
        if let Some(queue) = queue {
            self.went_back(queue);
        }
    }

    /// The program hears that this is stored.
    pub(in crate::consumer::sim) fn program_knows(&mut self, id: u64, to: i64) {
        let id = self.present(id);
        if let Some(generation) = self.generations.get_mut(&id) {
            generation.handed.known = Some(to);
        }
    }

    /// Only the program commits: as long as it has not, nothing is stored of this generation.
    pub(in crate::consumer::sim) fn is_by_hand(&mut self, id: u64) {
        if let Some(generation) = self.generations.get_mut(&id) {
            generation.handed.known = Some(generation.start);
        }
    }

    pub(in crate::consumer::sim) fn start_of(&self, id: u64) -> i64 {
        self.generations.get(&id).map_or(0, |generation| generation.start)
    }

    /// A program wants to go on there.
    pub(in crate::consumer::sim) fn sought(&mut self, member: usize, queue: usize, to: i64) {
        self.sought.insert((member, queue), to);
    }

    /// A queue begins where its program wanted. What it skipped, it did not want, and what it had had, it wants again.
    pub(in crate::consumer::sim) fn found(&mut self, member: usize, queue: usize, at: i64) -> bool {
        let found = self.sought.remove(&(member, queue)) == Some(at);
        self.excuse(queue, 0..at);
        self.went_back(queue);
        found
    }

    /// What the program of a member has said of the start of a queue, in that life of it. `None`: it did not know.
    pub(in crate::consumer::sim) fn program_said(
        &mut self,
        member: usize,
        queue: usize,
        epoch: u64,
        said: Option<Option<i64>>,
    ) {
        self.program_said.insert((member, queue), (epoch, said));
    }

    /// Whether the program has said that it has no offset of the queue, in that life of it.
    pub(in crate::consumer::sim) fn has_no_own_offset(
        &self,
        member: usize,
        queue: usize,
        epoch: u64,
    ) -> bool {
        self.program_said.get(&(member, queue)) == Some(&(epoch, Some(None)))
    }

    pub(in crate::consumer::sim) fn is_latest(&self, member: usize, id: u64) -> bool {
        self.queue_of(id).is_some_and(|queue| self.latest(member, queue) == Some(id))
    }

    /// Up to where this generation has handed everything out.
    pub(in crate::consumer::sim) fn position(&mut self, id: u64) -> i64 {
        self.generations.get_mut(&id).map_or(0, Generation::position)
    }

    /// Up to where the generation before the newest has handed everything out.
    pub(in crate::consumer::sim) fn position_of_former(&mut self, member: usize, queue: usize) -> i64 {
        let all = self.generations.values_mut().rev();
        let former = all.filter(|one| one.member == member && one.queue == queue).nth(1);
        former.map_or(0, Generation::position)
    }
}

impl Generation {
    fn position(&mut self) -> i64 {
        let mut past = self.start + self.handed.past;
        advance(&self.finished, &mut past, self.start)
    }
}
