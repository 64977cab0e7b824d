//! Attacks: numerics against PyTorch, and that they work where they should and nowhere else.

mod leaks;
mod numerics;
mod stage;
