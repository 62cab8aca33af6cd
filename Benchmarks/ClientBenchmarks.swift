import Foundation
import Sanguine
import Synchronization

/// The cost of a cached read on the client, compared with a dictionary under the same kind of lock.
enum ClientBenchmarks {
    /// The number of reads per round.
    static let reads = 200_000
    /// The number of rounds, each with ours and the baseline in turn.
    static let rounds = 9

    struct Profile: Codable, Sendable, Equatable {
        var name = "Ada"
        var followers = 1_815
    }

    /// Runs the benchmarks whose name contains the text, or all of them without a text.
    static func run(only text: String?) async throws -> [Figure] {
        var figures: [Figure] = []
        let all =
            [Benchmark("client.cached") { try await cached() }] + QueryBenchmarks.benchmarks
            + RecordBenchmarks.all + MutationBenchmarks.all + ThreadBenchmarks.all
        for benchmark in all where text.map(benchmark.name.contains) ?? true {
            figures += try await benchmark.run()
        }
        return figures
    }

    private static func cached() async throws -> [Figure] {
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "http://localhost")
        configuration.transport = OneAnswer()
        let client = try SanguineClient(configuration)
        let query = ValueQuery<Profile>("profile", "42", policy: .fresh(for: .minutes(5))) {
            request in
            try await request.get("profiles/42")
        }
        _ = try await client.value(of: query)
        // As many other entries as an app may have.
        var dictionary: [String: Profile] = ["profile/42": Profile()]
        for number in 1_000..<2_000 { dictionary["profile/\(number)"] = Profile() }
        let guarded = Mutex(dictionary)
        let key = "profile/42"

        var found = 0
        var samples: [(ours: Double, base: Double)] = []
        for _ in 0..<rounds {
            let ours = nanoseconds { found += client.cached(query)?.followers ?? 0 }
            let base = nanoseconds { found += guarded.withLock { $0[key] }?.followers ?? 0 }
            samples.append((ours, base))
        }
        client.close()
        guard found == 2 * rounds * reads * 1_815 else { throw BenchmarkError.wrong("cached") }
        return [
            Figure(
                cost: "client.cached",
                samples.map(\.ours).median,
                unit: "ns",
                of: "Dictionary under a Mutex",
                samples.map(\.base).median,
                atMost: 3
            ),
            Figure(
                cost: "client.cached, against a peer",
                samples.map(\.ours).median,
                unit: "ns",
                beside: QueryBenchmarks.peer,
                recorded: 5_300
            ),
        ]
    }

    /// Returns the average time of one read in a round.
    private static func nanoseconds(_ read: () -> Void) -> Double {
        let clock = ContinuousClock()
        let time = clock.measure {
            for _ in 0..<reads { read() }
        }
        return time / .nanoseconds(1) / Double(reads)
    }

    /// A network that always responds with the same profile.
    private struct OneAnswer: HTTPTransport {
        func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
            TransportResponse(
                status: 200,
                headers: ["content-type": "application/json"],
                body: Data(#"{"name":"Ada","followers":1815}"#.utf8)
            )
        }
    }
}
