//! Handles that many threads take up at once.

use std::sync::{Arc, Mutex};

use crate::seeded::Random;

pub struct Pool<T>(Mutex<Vec<Arc<T>>>);

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Pool<T> {
    pub fn len(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    pub fn add(&self, one: T) {
        self.0.lock().unwrap().push(Arc::new(one));
    }

    /// One that stays for others.
    pub fn any(&self, random: &mut Random) -> Option<Arc<T>> {
        let all = self.0.lock().unwrap();
        (!all.is_empty()).then(|| all[random.index(all.len())].clone())
    }

    /// One that nobody else finds any more. Others may have it in hand.
    pub fn take(&self, random: &mut Random) -> Option<Arc<T>> {
        random.take(&mut self.0.lock().unwrap())
    }

    pub fn take_all(&self) -> Vec<Arc<T>> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}
