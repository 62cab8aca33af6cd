import ArgumentParser
import Sanguine

/// The `sanguine` command: only arguments and wiring.
struct SanguineTool: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "sanguine",
        abstract: "A data layer for apps whose users never wait.",
        discussion: """
            Start with 'sanguine demo', which plays a guest's first minutes. 'sanguine serve' is \
            a complete backend; 'ask', 'note', 'balance' and 'quota' are its client.
            """,
        version: SanguineClient.version,
        groupedSubcommands: [
            CommandGroup(
                name: "Run:",
                subcommands: [
                    Serve.self, StandIn.self, DemoCommand.self, ConfigCommand.self,
                    LoadCommand.self,
                ]
            ),
            CommandGroup(
                name: "Support:",
                subcommands: [
                    Doctor.self, Backup.self, Restore.self, EpochCommand.self, Ledger.self,
                    AccountCommand.self, SwitchesCommand.self,
                ]
            ),
            CommandGroup(
                name: "Use:",
                subcommands: [
                    AskCommand.self, NoteCommand.self, BalanceCommand.self, QuotaCommand.self,
                    MatrixCommand.self,
                ]
            ),
        ]
    )
}

/// Parses and runs a command, and ends with the documented exit status.
///
/// The status is 0 for success, 1 for failure and 2 for wrong usage. Errors go to standard error.
@main
enum Main {
    static func main() async {
        Output.prepare()
        do {
            var command = try SanguineTool.parseAsRoot()
            if var command = command as? any AsyncParsableCommand {
                try await command.run()
            } else {
                try command.run()
            }
            try Output.checkAnnouncements()
            await Output.finishErrors()
        } catch {
            let code = say(error)
            await Output.finishErrors()
            SanguineTool.exit(withError: code)
        }
    }

    /// Prints an error.
    ///
    /// - Returns: The exit status.
    private static func say(_ error: any Error) -> ExitCode {
        let message = SanguineTool.fullMessage(for: error)
        switch SanguineTool.exitCode(for: error) {
        case .success:
            do { try Output.write(message) } catch { return say(error) }
            return .success
        case .validationFailure:
            Output.writeError(message)
            return ExitCode(2)
        default:
            let isSaid = error is ExitCode || (error as? Output.Unwritable)?.isClosedPipe == true
            if !isSaid { Output.writeError("Error: \(error)") }
            return .failure
        }
    }
}
