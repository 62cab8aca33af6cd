import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// A thousand images that are scrolled in random order, with cancellations, failures and memory
/// warnings.
@Suite("Image game", .bounded)
struct ImageGameTests {
    /// What the host has sent, and what the client has delivered.
    private final class Referee: Sendable {
        private struct State {
            var delivered: Set<String> = []
            var repeated: [String] = []
            var failed: Set<String> = []
            var random: SplitMix64
        }

        private let state: Mutex<State>

        init(seed: UInt64) { state = Mutex(State(random: SplitMix64(seed: seed))) }

        /// The images that were requested although the client had them.
        var repeated: [String] { state.withLock { $0.repeated } }
        /// The number of images that were delivered.
        var deliveredCount: Int { state.withLock { $0.delivered.count } }

        func delivered(_ name: String) { state.withLock { _ = $0.delivered.insert(name) } }

        /// Answers a request; each image fails at most once, and one in ten does.
        func answer(_ request: TransportRequest) -> ScriptedTransport.Answer {
            let name = request.url.lastPathComponent
            let (fails, filler) = state.withLock { state in
                if state.delivered.contains(name) { state.repeated.append(name) }
                let isUnlucky = Int.random(in: 0..<10, using: &state.random) == 0
                let fails = isUnlucky && state.failed.insert(name).inserted
                return (fails, Int.random(in: 100...4_000, using: &state.random))
            }
            return fails ? .status(503) : .respond(ImageStage.image(filler: filler))
        }
    }

    private static let count = 1_000
    private static let window = 12

    private static func source(_ number: Int) -> ImageSource { ImageStage.url("\(number)") }

    @Test(arguments: Fuzz.seeds(1...2))
    func `a thousand images stay within the limits, and each is loaded once`(
        seed: UInt64
    ) async throws {
        let referee = Referee(seed: seed)
        let folder = TemporaryFolder()
        let stage = ImageStage { request in referee.answer(request) }
        let client = try stage.client(folder: folder) { configuration in
            configuration.images.memoryBytes = 100_000
            configuration.images.memoryImages = 40
        }.client
        let engine = client.services.images
        var random = SplitMix64(seed: seed)
        var order = Array(0..<Self.count)
        order.shuffle(using: &random)
        var tasks: [Task<Void, Never>] = []
        var visible: [Int] = []
        for number in order.prefix(Fuzz.events(Self.count)) {
            let key = client.images.request(Self.source(number), ImageStage.size).key
            engine.show(key)
            visible.append(number)
            let task = Task { await load(number, client, referee) }
            tasks.append(task)
            if Int.random(in: 0..<8, using: &random) == 0 { task.cancel() }
            if Int.random(in: 0..<30, using: &random) == 0 { client.images.trimMemory() }
            if visible.count > Self.window {
                let gone = visible.removeFirst()
                engine.hide(client.images.request(Self.source(gone), ImageStage.size).key)
            }
            // Waits as a reader does, so that at most as many requests wait as a screen has.
            if tasks.count > Self.window { try await tasks.removeFirst().finished() }
            let numbers = client.images.statistics
            #expect(
                numbers.memoryBytes <= 100_000 && numbers.memoryImages <= 40,
                Fuzz.replay(Self.self, seed: seed)
            )
        }
        for task in tasks { try await task.finished() }
        try await eventually("nothing is being loaded") { engine.inFlight == 0 }
        // Everything is loaded in the end, also what was cancelled or had failed.
        for number in order.prefix(Fuzz.events(Self.count)) {
            let image = try await client.images.image(
                Self.source(number),
                fitting: ImageStage.size
            )
            referee.delivered("\(number)")
            #expect(image.width == 800)
        }
        #expect(referee.repeated == [], Fuzz.replay(Self.self, seed: seed))
        #expect(referee.deliveredCount == min(Self.count, Fuzz.events(Self.count)))
        #expect(client.images.statistics.unwrittenFiles == 0)
        client.close()
    }

    private func load(
        _ number: Int,
        _ client: SanguineClient,
        _ referee: Referee
    ) async {
        // Failures and cancellations are part of the game; the end loads what they left.
        guard
            (try? await client.images.image(
                Self.source(number),
                fitting: ImageStage.size,
                priority: .visible
            )) != nil
        else { return }
        referee.delivered("\(number)")
    }
}
