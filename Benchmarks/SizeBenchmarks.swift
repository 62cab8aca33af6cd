import Foundation
import NIOCore
import NIOPosix
import SanguineModel
import SanguineServer
import Synchronization

/// One collection with few and with many records: a page, a search and a write; and a page with
/// selected members.
enum SizeBenchmarks {
    /// The number of records with which the others are compared.
    private static let few = 10_000
    private static let rounds = 5
    /// The duration of each kind of request in a round, which is too short to read a page twice.
    private static let time: Duration = .milliseconds(100)
    /// The members that a list of a feed shows.
    private static let shown = ["title", "text", "author", "photo", "placeholder", "createdAt"]

    /// The latencies of each kind of request, in milliseconds.
    private struct Samples {
        var pages: [Double] = []
        var searches: [Double] = []
        var writes: [Double] = []
    }

    static func run(rows: Int) async throws -> [Figure] {
        try await BenchmarkedServer.with {
            $0.collections = [Articles.collection]
            $0.limits.accountBytes = 8 << 30
        } _: { server in
            let articles = Articles(server: server)
            try await articles.create(0..<few)
            let payload = try await payload(articles)
            let base = try await measure(articles, few)
            try await articles.create(few..<rows)
            let many = try await measure(articles, rows)
            func figure(_ name: String, _ samples: KeyPath<Samples, [Double]>) -> Figure {
                Figure(
                    cost: "\(name) of \(rows.formatted()) records, median",
                    many[keyPath: samples].median,
                    unit: "ms",
                    of: "the same of \(few.formatted())",
                    base[keyPath: samples].median,
                    atMost: 1.2
                )
            }
            return [
                payload, figure("a page", \.pages), figure("a search", \.searches),
                figure("a write", \.writes),
            ]
        }
    }

    /// Measures the bytes of a page with selected members.
    private static func payload(_ articles: Articles) async throws -> Figure {
        let whole = try await articles.list("?limit=20&order=-createdAt")
        let fields = (["id"] + shown).joined(separator: ",")
        let selected = try await articles.list("?limit=20&order=-createdAt&fields=\(fields)")
        guard whole.items.count == 20, selected.items.count == 20 else {
            throw BenchmarkError.wrong("the page")
        }
        return Figure(
            cost: "a page of 20 with 'fields'",
            Double(selected.bytes),
            unit: "bytes",
            of: "the whole records",
            Double(whole.bytes),
            atMost: 0.8
        )
    }

    /// Measures writes, pages that follow each other, and searches for different beginnings.
    ///
    /// The writer reads, so that no page or search is from the server's memory for lists, which
    /// ends with a write.
    private static func measure(_ articles: Articles, _ rows: Int) async throws -> Samples {
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        var samples = Samples()
        for round in 0..<rounds {
            let refused = Counter()
            var generator = LoadGenerator(
                port: articles.server.port,
                connections: 1,
                group: group
            )
            generator.onResponse = { _, text in
                if !text.contains(#""status":"applied""#) { _ = refused.add() }
            }
            let device = "bench-size-\(rows)-\(round)"
            samples.writes += try await latencies(generator) { number in
                articles.pushRequest(device, number)
            }
            guard refused.value == 0 else { throw BenchmarkError.refused(refused.value) }

            let place = Place()
            generator.onResponse = { _, text in
                let next = Articles.cursor(in: text).map { "&cursor=\($0)" }
                place.cursor.withLock { $0 = next ?? "" }
            }
            samples.pages += try await latencies(generator) { _ in
                let cursor = place.cursor.withLock(\.self)
                return articles.listRequest("?limit=20&order=-createdAt\(cursor)")
            }
            generator.onResponse = nil
            samples.searches += try await latencies(generator) { number in
                // Ten titles begin in this way.
                let place = (number + round * 1_000) * 7_919 % (rows / 10) * 10
                let beginning = Articles.title(place).prefix(Articles.digits)
                return articles.listRequest("?limit=20&prefix.title=\(beginning)")
            }
        }
        try await group.shutdownGracefully()
        return samples
    }

    /// The place of a reader in a list.
    private final class Place: Sendable {
        /// The parameter of the next page; empty for the first one.
        let cursor = Mutex("")
    }

    private static func latencies(
        _ generator: LoadGenerator,
        _ request: @escaping @Sendable (Int) -> String
    ) async throws -> [Double] {
        let outcome = try await generator.run(for: time, expecting: "200") { _, number in
            request(number)
        }
        guard outcome.failed == 0, outcome.answered > 0 else {
            throw BenchmarkError.refused(outcome.failed)
        }
        return outcome.latencies
    }
}
