//! What people's browsers do.
