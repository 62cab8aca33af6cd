import Foundation
import Sanguine
import SanguineModel

/// The cost of a mutation of an app's own backend until it is visible.
enum MutationBenchmarks {
    private static let clock = ContinuousClock()
    private static let pending = 4_000
    private static let samples = 200

    static let all = [Benchmark("perform a mutation until visible") { [try perform()] }]

    private struct Like: RemoteMutation {
        static let name = "song.like"
        let song: Int

        func effects(on view: inout MutationEffects) {
            view.update(QueryBenchmarks.query(song)) { $0.followers += 1 }
        }

        func send(_ request: MutationContext) async throws {
            try await request.post("songs/\(song)/like")
        }
    }

    /// Measures a mutation behind thousands of pending ones on the same value, one of them being
    /// sent.
    private static func perform() throws -> Figure {
        let folder = FileManager.default.temporaryDirectory
            .appending(path: "sanguine-mutations-\(UInt64.random(in: 0 ... .max))")
        defer { try? FileManager.default.removeItem(at: folder) }
        var configuration = SanguineClient.Configuration(server: nil)
        configuration.baseURL = URL(string: "http://localhost")
        configuration.folder = folder
        configuration.transport = Silence()
        configuration.register(Like.self)
        let client = try SanguineClient(configuration)
        defer { client.close() }
        client.set(QueryBenchmarks.Profile(), for: QueryBenchmarks.query(1))
        var made = 0
        func like() throws -> Double {
            made += 1
            let time = try clock.measure { try client.perform(Like(song: 1)) }
            guard client.cached(QueryBenchmarks.query(1))?.followers == made else {
                throw BenchmarkError.wrong("perform")
            }
            return time / .microseconds(1)
        }
        let first = try (0..<samples).map { _ in try like() }
        while made < pending { _ = try like() }
        let last = try (0..<samples).map { _ in try like() }
        return Figure(
            cost: "perform a mutation until visible, \(pending.formatted()) pending on the value",
            last.median,
            unit: "µs",
            of: "the same with none",
            first.median,
            atMost: 1.5
        )
    }

    /// A network that never responds.
    private struct Silence: HTTPTransport {
        func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
            let (never, silence) = AsyncStream.makeStream(of: Void.self)
            for await _ in never {}
            silence.finish()
            throw .cancelled
        }
    }
}
