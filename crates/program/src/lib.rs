//! What can be known about a program without running it: analyses over the program model of `ir`.
