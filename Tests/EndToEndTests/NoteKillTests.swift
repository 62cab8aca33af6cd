import Foundation
import SanguineTesting
import TestSupport
import Testing

extension EndToEnd {
    /// `kill -9` of the real client, at moments that a seed chooses.
    @Suite("Killed clients", .bounded(.seconds(300)))
    struct NoteKillTests {
        private static let devices = 4
        private static let killsPerDevice = 50
        private static let mostLines = 40

        @Test(arguments: [21] as [UInt64])
        func `a client killed 200 times while adding notes loses none and duplicates none`(
            seed: UInt64
        ) async throws {
            try await TemporaryFolder.with { folder in
                let data = folder.appending(path: "data")
                try await ServeProcess.with(data: data) { server in
                    let first = NoteDevice(
                        folder: folder.appending(path: "device-0"),
                        port: server.port
                    )
                    _ = try await first.settled()
                    let taken = try await concurrently(Self.devices) { number in
                        let device = Self.device(number, beside: first)
                        return try await Self.storm(device, seed: seed, number: number)
                    }
                    try await Self.expectAll(taken.flatMap { $0 }, beside: first, seed: seed)
                }
            }
        }

        private static func device(_ number: Int, beside first: NoteDevice) -> NoteDevice {
            guard number > 0 else { return first }
            let folder = first.folder.deletingLastPathComponent()
            return NoteDevice(
                folder: folder.appending(path: "device-\(number)"),
                port: first.port,
                joining: first.folder
            )
        }

        /// Kills the client repeatedly, and returns the ids of the notes that it reported as added.
        private static func storm(
            _ device: NoteDevice,
            seed: UInt64,
            number: Int
        ) async throws -> [Substring] {
            var random = SplitMix64(seed: seed &+ UInt64(number) << 32)
            var taken: [Substring] = []
            for kill in 0..<killsPerDevice {
                let given = Int.random(in: 1...mostLines, using: &random)
                let awaited = Int.random(in: 0...given, using: &random)
                let input = (0..<given).map { "\(number)-\(kill)-\($0)\n" }.joined()
                taken += try await Tool.with(device.arguments(["add", "-"]), input: input) { tool in
                    try await tool.output.when { $0.hasEnded || $0.lines.count >= awaited }
                    tool.signal(SIGKILL)
                    let ended = try await tool.ended()
                    #expect(ended.status == -SIGKILL, "Seed \(seed): \(ended.errors)")
                    return tool.output.value.lines.map { $0.prefix { $0 != " " } }
                }
            }
            return taken
        }

        /// Checks that every added note exists once, on all devices and on a new one.
        private static func expectAll(
            _ taken: [Substring],
            beside first: NoteDevice,
            seed: UInt64
        ) async throws {
            // Each device first sends what its last process left in the outbox.
            for number in 0..<devices {
                let refused = try await device(number, beside: first).settled().refused
                #expect(refused.isEmpty, "Seed \(seed): a note was created twice.")
            }
            for number in 0...devices {
                let notes = try await device(number, beside: first).settled().notes
                let ids = Set(notes.map(\.id))
                let lost = taken.filter { !ids.contains(String($0)) }
                #expect(lost.isEmpty, "Seed \(seed): device \(number) lacks \(lost.count) notes.")
                let texts = Set(notes.map(\.text))
                let twice = notes.count - texts.count
                #expect(twice == 0, "Seed \(seed): device \(number) has \(twice) notes twice.")
            }
            #expect(taken.count == Set(taken).count)
            let kills = devices * killsPerDevice
            #expect(taken.count > kills, "Seed \(seed): too few notes were added.")
            print("Seed \(seed): \(kills) kills, \(taken.count) notes added.")
        }
    }
}
