/// Something to measure of the client, by name: so that one of them can be run alone.
struct Benchmark: Sendable {
    /// Begins as its figures do.
    let name: String
    let run: @Sendable () async throws -> [Figure]

    init(_ name: String, _ run: @escaping @Sendable () async throws -> [Figure]) {
        self.name = name
        self.run = run
    }
}
