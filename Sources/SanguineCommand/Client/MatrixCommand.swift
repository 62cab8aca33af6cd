import ArgumentParser
import Sanguine

/// `sanguine matrix`.
struct MatrixCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "matrix",
        abstract: "Show how each query of this client is stored: its storage matrix.",
        discussion: "An app prints its own with 'print(client.matrix())'."
    )

    @Flag(help: "Print JSON.")
    var json = false

    // The matrix is computed from the declarations, without a request or a store.
    static var matrix: StorageMatrix { StorageMatrix(declared: SanguineClient.builtInQueries) }

    func run() throws {
        if json {
            try Output.write(json: Self.matrix)
        } else {
            try Output.write(Self.matrix.description)
        }
    }
}
