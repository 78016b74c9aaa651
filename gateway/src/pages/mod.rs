//! Pages for people and agents: `/agent.md`, `/room`.
