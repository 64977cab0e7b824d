//! The program from the outside: what it prints where, and with which exit code it ends.
//!
//! Each test has a folder of its own and runs a small pipeline on the digits that ship with the program.

mod browser;
mod commands;
mod invalid;
mod results;
mod runs;
mod signals;
mod space;
mod store;
mod truth;
