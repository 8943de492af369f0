//! `kubewright completion`: shell completion scripts.

use std::error::Error;

use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::shells;

/// Usage of the scripts.
pub const HELP: &str = "\
To use it:
  bash   source <(kubewright completion bash)      in ~/.bashrc to keep it
  zsh    source <(kubewright completion zsh)       in ~/.zshrc, after compinit
  fish   kubewright completion fish | source       in ~/.config/fish/config.fish";

/// The shell.
#[derive(Debug, Args)]
pub struct CompletionOptions {
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// Prints the script.
pub fn print(options: &CompletionOptions) -> Result<(), Box<dyn Error>> {
    let (mut command, mut script) = (crate::Cli::command(), Vec::new());
    match options.shell {
        Shell::Bash => clap_complete::generate(shells::Bash, &mut command, "kubewright", &mut script),
        Shell::Zsh => clap_complete::generate(shells::Zsh, &mut command, "kubewright", &mut script),
        Shell::Fish => clap_complete::generate(shells::Fish, &mut command, "kubewright", &mut script),
    }
    // Buffered, because `generate` panics on a closed pipe.
    Ok(crate::output::print(script)?)
}
