import Foundation
import Sanguine
import Synchronization

/// The figures of a server's `/metrics`, as far as a run shows them.
struct ServerFacts: Hashable, Sendable {
    /// The resident memory of the server's process.
    var memoryBytes: Double?
    /// The processor time of the server's process.
    var processorSeconds: Double?
    var liveConnections: Double?
    /// The reads of lists from the storage.
    var listReads: Double?
    /// The lists that were served.
    var lists: Double

    /// Parses text in the OpenMetrics format.
    init(metrics text: String) {
        var sums: [String: Double] = [:]
        for line in text.split(separator: "\n") where !line.hasPrefix("#") {
            guard let space = line.lastIndex(of: " "),
                let value = Double(line[line.index(after: space)...])
            else { continue }
            let series = line[..<space]
            switch series.prefix(while: { $0 != "{" }) {
            case "http_server_requests_total"
            where series.contains(#"route="/v1/collections/{name}/records""#)
                && series.contains(#"method="GET""#):
                sums["lists", default: 0] += value
            case "storage_reads_total" where series.contains(#"kind="records""#):
                sums["listReads", default: 0] += value
            default:
                if !series.contains("{") { sums[String(series)] = value }
            }
        }
        memoryBytes = sums["process_resident_memory_bytes"]
        processorSeconds = sums["process_cpu_seconds_total"]
        liveConnections = sums["live_connections"]
        listReads = sums["listReads"]
        lists = sums["lists"] ?? 0
    }
}

/// Reads the metrics of a server before, during and after a run.
final class ServerWatch: Sendable {
    /// The facts of one moment.
    struct Sample: Sendable, Hashable {
        var time: Duration
        var facts: ServerFacts
    }

    private static let timeout: Duration = .seconds(2)

    private let url: URL
    private let transport = URLSessionTransport()
    private let found = Mutex<[Sample]>([])

    /// Creates a watch of the admin port at a URL without a path.
    init(_ admin: URL) { url = admin.appending(path: "metrics") }

    /// The facts so far; empty if the metrics cannot be reached.
    var samples: [Sample] { found.withLock { $0 } }

    /// Reads the metrics once, and ignores failures.
    func read(at time: Duration) async {
        let request = TransportRequest(url: url, timeout: Self.timeout)
        guard let response = try? await transport.send(request), response.status == 200 else {
            return
        }
        let facts = ServerFacts(metrics: String(decoding: response.body, as: UTF8.self))
        found.withLock { $0.append(Sample(time: time, facts: facts)) }
    }

    /// Reads the metrics at an interval until the task is cancelled.
    func follow(
        every interval: Duration,
        clock: some Clock<Duration> = ContinuousClock()
    ) async {
        let start = clock.now
        while !Task.isCancelled {
            await read(at: start.duration(to: clock.now))
            do { try await Task.sleep(for: interval, clock: clock) } catch { return }
        }
    }

    func close() { transport.close() }
}
