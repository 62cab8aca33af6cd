import Foundation
import SanguineModel
import SanguineTesting
import Synchronization

@testable import Sanguine

/// Writes to single values and to rows of a list, played on the real client with real files.
///
/// The seed decides the order of the network's answers and which answers are lost; others change
/// titles; processes die. Only this user plays tracks, so that the number of plays to show is
/// always known: see ``check(_:)``.
final class WriteGame {
    /// Describes the failure and the step it followed.
    struct Fault: Error, CustomStringConvertible {
        let description: String
    }

    private enum Step: CaseIterable {
        case play, retitle, drop, append
        case fetch, refresh, loadNext
        case answer, answerWrite
        case changeTitle, failWrite, failRead
        case wait, die
    }

    private let fixture = TrackFixture(tracks: 1...7)
    private var random: SplitMix64
    private var client: SanguineClient
    private var processes: UInt64 = 1
    private var fetches: [Task<Void, Never>] = []
    /// The number of times the user has played each track, without refused plays.
    private var plays: [Int: Int] = [:]
    private var dropped: Set<Int> = []
    private var lastTrack = 7
    /// The plays that were shown for each track; they never decrease.
    private var shown: [Int: Int] = [:]
    private var log: [String] = []

    init(seed: UInt64) throws {
        random = SplitMix64(seed: seed)
        client = try fixture.client()
        fixture.network.hold()
    }

    /// Plays that many steps, waits until all work is done, and compares with the backend.
    func play(steps: Int) async throws {
        for _ in 0..<steps {
            let step = Step.allCases.randomElement(using: &random) ?? .answer
            try await perform(step)
            await settleDown()
            try check("\(step)")
        }
        try await finish()
        for fetch in fetches { fetch.cancel() }
        client.close()
    }

    // MARK: - Steps

    private func perform(_ step: Step) async throws {
        // Appended tracks are not played because the backend may not have them yet.
        let track = Int.random(in: 1...7, using: &random)
        switch step {
        case .play:
            let lane = Bool.random(using: &random) ? "play" : "other"
            try client.perform(PlayTrack(track: track, lane: lane))
            plays[track, default: 0] += 1
        case .retitle: try client.perform(RetitleTrack(track: track, title: "Mine"))
        case .drop:
            guard dropped.count < 3 else { return }
            try client.perform(DropTrack(track: track))
            dropped.insert(track)
        case .append:
            lastTrack += 1
            try client.perform(AppendTrack(track: lastTrack))
        case .fetch: start { _ = try await $0.refresh(.track(track)) }
        case .refresh: start { try await $0.refresh(.tracks) }
        case .loadNext: start { try await $0.loadNext(.tracks) }
        case .answer: try await answer { _ in true }
        case .answerWrite: try await answer(\.isWrite)
        case .changeTitle: fixture.backend.change(track) { $0.title = "Theirs" }
        case .failWrite:
            let isDone = Bool.random(using: &random)
            let answers: [ScriptedTransport.Answer] = [
                .status(500), .fail(.interrupted("lost")), .fail(.timedOut),
            ]
            if let answer = answers.randomElement(using: &random) {
                fixture.backend.failWrite(answer, done: isDone)
            }
            if Bool.random(using: &random) { fixture.backend.failWrite(.status(503)) }
        case .failRead: fixture.backend.failRead(.status(500))
        case .wait: fixture.delay.advance(by: .seconds(Int.random(in: 1...30, using: &random)))
        case .die: try die()
        }
        log.append("\(step) \(track)")
    }

    /// Answers the oldest matching request, if there is one.
    private func answer(_ fits: @escaping @Sendable (TransportRequest) -> Bool) async throws {
        guard fixture.network.held.contains(where: fits) else { return }
        try await fixture.network.releaseFirst(where: fits)
    }

    private func start(
        _ body: @escaping @Sendable (SanguineClient) async throws -> Void
    ) {
        fetches.append(Task { [client] in _ = try? await body(client) })
    }

    /// Ends the process at once and starts another with the files that it left.
    private func die() throws {
        guard Int.random(in: 0..<3, using: &random) == 0 else { return }
        let copy = try fixture.death()
        for fetch in fetches { fetch.cancel() }
        fetches = []
        client.close()
        if FileManager.default.fileExists(atPath: fixture.folder.url.path) {
            try FileManager.default.removeItem(at: fixture.folder.url)
        }
        try FileManager.default.moveItem(at: copy.url, to: fixture.folder.url)
        processes += 1
        client = try fixture.client(seed: processes)
        // Everything that was only in memory is lost.
        shown = [:]
    }

    /// Lets tasks run that have work to do; the rest runs later.
    private func settleDown() async {
        for _ in 0..<3 { await Task.detached {}.value }
    }

    // MARK: - Guarantees

    private func check(_ place: String) throws {
        for track in 1...lastTrack {
            if let plays = client.plays(track) { try check(track, plays, "value", place) }
        }
        var seen: Set<Int> = []
        for row in client.rows {
            guard seen.insert(row.id).inserted else { throw fault("row \(row.id) twice", place) }
            guard !dropped.contains(row.id) else { throw fault("row \(row.id) is back", place) }
            try check(-row.id, row.plays, "row", place)
        }
        // A row that is not shown may come back in any state.
        for row in shown.keys where row < 0 && !seen.contains(-row) { shown[row] = nil }
    }

    /// Checks that own writes are never shown twice and that shown plays remain.
    private func check(_ key: Int, _ found: Int, _ what: String, _ place: String) throws {
        let most = plays[abs(key)] ?? 0
        guard found <= most else {
            throw fault("\(what) \(abs(key)) shows \(found) plays of \(most)", place)
        }
        let before = shown[key] ?? 0
        guard found >= before else {
            throw fault("\(what) \(abs(key)) shows \(found) plays after \(before)", place)
        }
        shown[key] = found
    }

    private func finish() async throws {
        fixture.backend.state.withLock { ($0.writeFaults, $0.readFaults) = ([], []) }
        fixture.network.release()
        let (client, delay) = (client, fixture.delay)
        try await eventually("all writes are answered and settled", within: .seconds(30)) {
            delay.advance(by: .seconds(60))
            let summary = client.outbox.summary
            return summary.unsent + summary.settling == 0
        }
        try check("the end")
        for track in fixture.backend.tracks {
            let fetched = try await fetched(track.id)
            guard fetched == track, track.plays == plays[track.id] ?? 0 else {
                throw fault("\(fetched) for \(track), played \(plays[track.id] ?? 0)", "the end")
            }
        }
        try await client.refresh(.tracks)
        while client.snapshot(of: .tracks).hasMore { try await client.loadNext(.tracks) }
        try await Self.reviewAll(client, fixture.backend)
        guard client.rows == fixture.backend.tracks else {
            throw fault("\(client.rows) for \(fixture.backend.tracks)", "the end")
        }
    }

    private func fetched(_ track: Int) async throws -> Track {
        do {
            return try await client.refresh(.track(track))
        } catch SanguineError.transport(.timedOut), SanguineError.timedOut {
            // The call had joined a fetch that timed out when the clock was advanced.
            return try await client.refresh(.track(track))
        }
    }

    /// Shows each row, so that pages older than the refresh are fetched again.
    @MainActor
    private static func reviewAll(_ client: SanguineClient, _ backend: TrackBackend) async throws {
        let model = client.model(.tracks)
        try await eventually("the list equals the backend's") {
            for row in model.items { model.itemAppeared(row.id) }
            return client.rows == backend.tracks
        }
    }

    private func fault(_ what: String, _ place: String) -> Fault {
        let tray = client.outbox.refused.map { "\($0.name): \($0.problem.detail)" }
        return Fault(
            description: """
                \(what), after \(place); \(client.outbox.summary), refused: \(tray); \
                shown: \(client.rows), there: \(fixture.backend.tracks); \
                steps: \(log.joined(separator: ", "))
                """
        )
    }
}
