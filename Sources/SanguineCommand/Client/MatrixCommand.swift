import ArgumentParser
import Sanguine

/// `sanguine matrix`.
struct MatrixCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "matrix",
        abstract: "Show how each query of this client is kept: its storage matrix.",
        discussion: "An app prints its own with 'print(client.matrix())'."
    )

    @Flag(help: "Print JSON.")
    var json = false

    func run() throws {
        // Nothing is asked or stored: the matrix is what the declarations say.
        let matrix = StorageMatrix(declared: SanguineClient.builtInQueries)
        if json {
            try Output.write(json: matrix)
        } else {
            Output.write(matrix.description)
        }
    }
}
