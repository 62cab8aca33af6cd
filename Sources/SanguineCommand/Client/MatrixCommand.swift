import ArgumentParser
import Sanguine
import SanguineServer

/// `sanguine matrix`.
struct MatrixCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "matrix",
        abstract: "Show where everything is stored, for how long and for which users.",
        discussion: """
            Reads the settings of a server as 'serve' does, and prints its functions and \
            collections, and the queries that every client has. An app prints its own matrix, with \
            its queries, by 'print(client.matrix())'.
            """
    )

    @OptionGroup var options: SettingsOptions

    @Flag(help: "Print Markdown.")
    var markdown = false

    @Flag(help: "Print JSON.")
    var json = false

    func validate() throws {
        if markdown, json {
            throw ValidationError("Pass either '--markdown' or '--json'.")
        }
    }

    /// Returns the matrix of a server's settings and of the client's own queries.
    static func matrix(of settings: ServerSettings) -> StorageMatrix {
        let queries = StorageMatrix(declared: SanguineClient.builtInQueries)
        return StorageMatrix(rows: StorageMatrix(of: settings).rows + queries.rows)
    }

    func run() async throws {
        let loaded = try await options.load()
        for warning in loaded.warnings { Output.writeError("Warning: \(warning)") }
        let matrix = Self.matrix(of: loaded.settings)
        if json {
            try Output.write(json: matrix)
        } else {
            try Output.write(markdown ? matrix.markdown : matrix.description)
        }
    }
}
