import ArgumentParser
import SanguineServer

/// `sanguine config`.
struct ConfigCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "config",
        abstract: "Print every setting with its value and the source of the value.",
        discussion:
            "Takes the flags of 'serve' and prints the values it would use. Secrets are masked."
    )

    @OptionGroup var options: SettingsOptions

    @Flag(help: "Print the reference of all settings in Markdown instead.")
    var reference = false

    @Flag(help: "Print JSON.")
    var json = false

    private struct Line: Encodable {
        var key: String
        var value: String
        var source: String
    }

    func run() async throws {
        if reference {
            try Output.write(SettingsReference.markdown())
            return
        }
        let loaded = try await options.load()
        let warnings = loaded.warnings + loaded.settings.warnings()
        for warning in warnings { Output.writeError("Warning: \(warning)") }
        if json {
            try Output.write(
                json: loaded.effective.map {
                    Line(key: $0.key, value: $0.value, source: "\($0.source)")
                }
            )
            return
        }
        let keys = loaded.effective.map(\.key.count).max() ?? 0
        let values = min(40, loaded.effective.map(\.value.count).max() ?? 0)
        for line in loaded.effective {
            let value = line.value.isEmpty ? "–" : line.value
            try Output.write(
                "\(line.key.padded(to: keys))  \(value.padded(to: values))  \(line.source)"
            )
        }
    }
}

extension String {
    /// Returns the text padded with trailing spaces to a width in characters.
    func padded(to width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - count))
    }
}
