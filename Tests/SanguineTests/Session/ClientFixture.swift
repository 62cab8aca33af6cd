import Foundation
import SanguineModel
import SanguineTesting
import Synchronization

@testable import Sanguine

/// Creates clients of an authority in memory, with clocks that a test sets.
struct ClientFixture {
    static let balancePath = "/v1/balance"
    static let askPath = "/v1/functions/ask"
    static let guestPath = "/v1/accounts/guest"
    static let refreshPath = "/v1/sessions/refresh"

    let authority: StagedAuthority
    let clock = ManualWallClock()
    let delay = SkippingClock()

    init() { authority = StagedAuthority(clock: clock) }

    /// Returns a new client, as a new process would create it.
    ///
    /// Without a folder nothing outlives it.
    func client(
        folder: URL? = nil,
        change: (inout SanguineClient.Configuration) -> Void = { _ in }
    ) throws -> SanguineClient {
        var configuration = SanguineClient.Configuration(server: URL(string: "http://test.invalid"))
        configuration.folder = folder
        configuration.isInMemory = folder == nil
        configuration.transport = authority
        configuration.clock = clock
        configuration.delay = delay
        change(&configuration)
        return try SanguineClient(configuration)
    }

    /// Returns a client that has fetched its 100 tokens.
    func clientWithBalance(folder: URL? = nil) async throws -> SanguineClient {
        let client = try client(folder: folder)
        _ = try await client.value(of: .balance)
        return client
    }

    /// Runs the body with a folder that is removed afterwards.
    static func withFolder<Value>(
        _ body: (URL) async throws -> Value
    ) async throws -> Value {
        let folder = FileManager.default.temporaryDirectory.appending(path: "sanguine-\(UUID())")
        defer { try? FileManager.default.removeItem(at: folder) }
        return try await body(folder)
    }
}

/// A clock whose short sleeps take no time and whose deadlines never pass.
///
/// A sleep of 40 seconds or more is a deadline, such as that of a read or of a silent stream: it
/// lasts until it is cancelled, so that no deadline passes before the work that it limits.
final class SkippingClock: Clock {
    struct Instant: InstantProtocol {
        var offset = Duration.zero

        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (lhs: Instant, rhs: Instant) -> Bool { lhs.offset < rhs.offset }
    }

    private static let patience = Duration.seconds(40)

    private let noted = Mutex<[Duration]>([])

    var now: Instant { Instant() }
    var minimumResolution: Duration { .zero }
    /// The durations of all sleeps except deadlines.
    var sleeps: [Duration] { noted.withLock { $0 } }

    func sleep(  // tidy: allow sleeping-test: this is the clock, and takes no time.
        until deadline: Instant,
        tolerance: Duration?
    ) async throws {
        try Task.checkCancellation()
        guard deadline.offset >= Self.patience else {
            return noted.withLock { $0.append(deadline.offset) }
        }
        let (ends, continuation) = AsyncStream.makeStream(of: Never.self)
        // Waits until the task is cancelled.
        for await _ in ends {}  // tidy: allow unbounded-wait: this is the clock.
        continuation.finish()
        try Task.checkCancellation()
    }
}
