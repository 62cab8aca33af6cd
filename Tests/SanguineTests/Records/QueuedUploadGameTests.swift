import Foundation
import SanguineModel
import SanguineTesting
import Synchronization
import TestSupport
import Testing

@testable import Sanguine

/// Photos that are added, refused, retried, discarded and withdrawn, over a network that loses
/// requests and responses, in an app that is killed at any moment.
@Suite("Game of queued uploads", .bounded(.seconds(120)))
struct QueuedUploadGameTests {
    /// Decides what becomes of requests, and watches that no operation names a local file.
    private final class Referee: Sendable {
        private struct State {
            var random: SplitMix64
            var isReliable = false
            var leaks: [String] = []
        }

        private let state: Mutex<State>

        init(seed: UInt64) { state = Mutex(State(random: SplitMix64(seed: seed))) }

        /// The operations that named a local file.
        var leaks: [String] { state.withLock { $0.leaks } }

        func becomeReliable() { state.withLock { $0.isReliable = true } }

        func fate(of request: TransportRequest) -> GalleryStage.Fate {
            state.withLock { state in
                let body = String(decoding: request.body ?? Data(), as: UTF8.self)
                if request.isPush, body.contains("local-file-") { state.leaks.append(body) }
                guard !state.isReliable else { return .served }
                switch Int.random(in: 0..<5, using: &state.random) {
                case 0: return .lost
                case 1: return .unanswered
                default: return .served
                }
            }
        }
    }

    /// What the app has done with a photo.
    private struct Added {
        let id: String
        let receipt: Receipt
        let file: String
        var isGone = false
    }

    private struct Game {
        let authority = InMemoryAuthority(schema: .gallery)
        let device: TestDevice
        let referee: Referee
        var random: SplitMix64
        var client: SanguineClient
        var added: [Added] = []

        init(seed: UInt64) throws {
            let (authority, referee) = (authority, Referee(seed: seed))
            (self.referee, random) = (referee, SplitMix64(seed: seed &+ 1))
            let network = ScriptedTransport { request in
                let fate = referee.fate(of: request)
                guard fate != .lost else { return .fail(.offline("a test's network")) }
                let response = await authority.answer(request)
                return fate == .served ? .respond(response) : .fail(.timedOut)
            }
            device = TestDevice(network: network, seed: seed) { $0.schema = .gallery }
            client = try device.launch()
        }

        /// What the server has of a record.
        func photo(_ id: String) -> String? {
            authority.record(GalleryPhoto.self, .of(id), of: client.accountId)?.photo
        }

        /// The files that wait for their upload.
        var staged: [String] {
            get throws { try device.files(with: "IHDR").filter { $0.contains("-files/") } }
        }

        mutating func play() async throws {
            switch Int.random(in: 0..<10, using: &random) {
            case 0...3: try await add()
            case 4: try restart()
            case 5: device.connectivity.isOnline.set(Bool.random(using: &random))
            case 6: refuseNext()
            case 7: try retryAll()
            case 8: try remove()
            default: device.delay.advance(by: .seconds(Int.random(in: 1...90, using: &random)))
            }
            for _ in 0..<Int.random(in: 0...20, using: &random) {
                await Task.yield()  // tidy: allow busy-wait: how far others get is up to the seed.
            }
        }

        /// Adds one or two records that name a photo, sometimes after a restart in between.
        private mutating func add() async throws {
            let number = added.count
            let upload = try await client.enqueueUpload(of: GalleryStage.photo(number))
            if Int.random(in: 0..<5, using: &random) == 0 { try restart() }
            for twin in 0..<Int.random(in: 1...2, using: &random) {
                let id = "photo-\(number)-\(twin)"
                let line = "line-\(Int.random(in: 0..<3, using: &random))"
                do throws(SanguineError) {
                    let mutation = AddPhoto(id: .of(id), photo: upload.id, line: line)
                    let receipt = try client.perform(mutation)
                    // It may have been refused since.
                    let isKnown = client.shownPhoto(id) != nil || !client.outbox.refused.isEmpty
                    #expect(isKnown, "\(id) is not shown at once.")
                    added.append(Added(id: id, receipt: receipt, file: upload.id))
                } catch {
                    // The file was refused before the operation was performed.
                    #expect(error.asProblem?.code == .storageFull, "\(error)")
                }
            }
        }

        private mutating func restart() throws {
            client = try device.launch()
        }

        private func refuseNext() {
            authority.fail(GalleryStage.uploadPath, with: Problem(.storageFull, "A test's."))
        }

        mutating func retryAll() throws {
            // A retry of an operation takes the upload of its file out of the tray as well.
            for refused in client.outbox.refused where isInTray(refused.id) {
                let receipt = try client.outbox.retry(refused.id)
                guard let place = added.firstIndex(where: { $0.receipt.id == refused.id }) else {
                    continue
                }
                let old = added[place]
                added[place] = Added(id: old.id, receipt: receipt, file: old.file)
            }
        }

        private func isInTray(_ id: Identifier) -> Bool {
            client.outbox.refused.contains { $0.id == id }
        }

        /// Withdraws or discards a record that was certainly not sent.
        private mutating func remove() throws {
            guard let place = added.indices.randomElement(using: &random) else { return }
            let id = added[place].receipt.id
            if isInTray(id) {
                try client.outbox.discard(id)
                added[place].isGone = true
            } else if try client.outbox.withdraw(id) {
                added[place].isGone = true
            }
        }

        /// Ends all troubles, and sends everything.
        mutating func finish() async throws {
            referee.becomeReliable()
            device.connectivity.connect()
            try restart()
            let client = client
            var rounds = 0
            repeat {
                rounds += 1
                try retryAll()
                try await device.delay.advancing { try await client.synchronize() }
            } while !client.outbox.refused.isEmpty && rounds < Self.mostRounds
        }

        /// More than the refusals that can be left over.
        private static let mostRounds = 200
    }

    @Test(arguments: Fuzz.seeds(1...6))
    func `each photo arrives once, after its file, and nothing is left`(
        seed: UInt64
    ) async throws {
        var game = try Game(seed: seed)
        for _ in 0..<Fuzz.events(60) { try await game.play() }
        try await game.finish()
        let comment = Fuzz.replay(Self.self, seed: seed)
        #expect(game.referee.leaks.isEmpty, comment)
        for added in game.added {
            let photo = game.photo(added.id)
            if added.isGone {
                #expect(photo == nil, comment)
            } else {
                #expect(photo?.count == 64, comment)
                #expect(game.client.shownPhoto(added.id) == photo, comment)
                #expect(game.client.fileID(of: added.file) == photo, comment)
            }
        }
        let isEmpty = game.client.outbox.pending.isEmpty && game.client.outbox.refused.isEmpty
        #expect(isEmpty, comment)
        #expect(try game.staged.isEmpty, comment)
    }
}
