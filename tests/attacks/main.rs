//! Attacks: numerics against PyTorch, and that they work where they should and nowhere else.

mod leaks;
mod members;
mod numerics;
mod rules;
mod stage;
