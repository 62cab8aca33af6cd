/// A named measurement of the client, which can be run by itself.
struct Benchmark: Sendable {
    /// The common prefix of its figures.
    let name: String
    let run: @Sendable () async throws -> [Figure]

    init(_ name: String, _ run: @escaping @Sendable () async throws -> [Figure]) {
        self.name = name
        self.run = run
    }
}
