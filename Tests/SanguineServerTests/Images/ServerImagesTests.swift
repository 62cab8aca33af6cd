import Foundation
import SanguineAuthority
import SanguineModel
import SanguineTesting
import TestSupport
import Testing

@testable import SanguineServer

/// Thumbnails that requests share.
@Suite("Thumbnails: shared work", .bounded)
struct ServerImagesTests {
    private static let now = Timestamp(millisecondsSince1970: 1_800_000_000_000)
    private let row = BlobRow(
        account: Identifier(at: Self.now),
        id: BlobID(of: [1]),
        size: 500,
        type: "image/png",
        width: 40,
        height: 30,
        createdAt: Self.now
    )

    @Test func `simultaneous requests read and scale the image once`() async throws {
        let images = ServerImages(folder: nil)
        let (reads, gate) = (WatchedState(0), WatchedState(false))
        let png = SampleFile.png.bytes()
        let tasks = (1...10).map { _ in
            Task {
                try await images.thumbnail(of: row, side: 32) { () async throws(Problem) in
                    reads.withLock { $0 += 1 }
                    _ = try? await gate.wait(for: "the gate") { $0 }
                    return png
                }
            }
        }
        try await reads.wait(for: "the first read") { $0 == 1 }
        gate.withLock { $0 = true }
        var found: Set<Thumbnail> = []
        for task in tasks { found.insert(try await task.finished()) }
        #expect(found.count == 1 && found.first?.type == "image/jpeg")
        #expect(reads.value == 1)
        let again = try await images.thumbnail(of: row, side: 32) { () async throws(Problem) in [] }
        #expect(found == [again])
    }

    @Test func `a cancelled request returns at once, and the others get the image`() async throws {
        let images = ServerImages(folder: nil)
        let (reads, gate) = (WatchedState(0), WatchedState(false))
        let png = SampleFile.png.bytes()
        let tasks = (1...2).map { _ in
            Task {
                try await images.thumbnail(of: row, side: 32) { () async throws(Problem) in
                    reads.withLock { $0 += 1 }
                    _ = try? await gate.wait(for: "the gate") { $0 }
                    return png
                }
            }
        }
        try await reads.wait(for: "the read") { $0 == 1 }
        try await eventually("both requests wait") { images.waiting == 2 }
        tasks[0].cancel()
        let refused = await #expect(throws: Problem.self) { try await tasks[0].finished() }
        #expect(refused?.code == .overloaded && images.waiting == 1)
        gate.withLock { $0 = true }
        #expect(try await tasks[1].finished().type == "image/jpeg")
        #expect(reads.value == 1)
    }

    @Test func `the last cancelled request ends the work`() async throws {
        let images = ServerImages(folder: nil)
        let (reads, ended) = (WatchedState(0), WatchedState(false))
        let task = Task {
            try await images.thumbnail(of: row, side: 32) { () async throws(Problem) in
                reads.withLock { $0 += 1 }
                // Throws when the work is cancelled.
                _ = try? await WatchedState(false).wait(for: "the cancellation") { $0 }
                let isCancelled = Task.isCancelled
                ended.withLock { $0 = isCancelled }
                return []
            }
        }
        try await reads.wait(for: "the read") { $0 == 1 }
        task.cancel()
        await #expect(throws: Problem.self) { try await task.finished() }
        #expect(images.waiting == 0)
        try await ended.wait(for: "the end of the work") { $0 }
        // The next request begins again.
        let png = SampleFile.png.bytes()
        let thumbnail = try await images.thumbnail(of: row, side: 32) {
            () async throws(Problem) in png
        }
        #expect(thumbnail.type == "image/jpeg")
    }

    @Test func `a failure is not kept`() async throws {
        let images = ServerImages(folder: nil)
        let refused = await Self.refusal {
            () async throws(Problem) in
            try await images.thumbnail(of: row, side: 32) { () async throws(Problem) in [1, 2] }
        }
        #expect(refused?.code == .invalidContent && refused?.status == 422)
        let png = SampleFile.png.bytes()
        let thumbnail = try await images.thumbnail(of: row, side: 32) {
            () async throws(Problem) in png
        }
        #expect(thumbnail.type == "image/jpeg")
    }

    @Test func `an upload is stored upright, without its location`() async throws {
        let images = ServerImages(folder: nil)
        let image = try await images.clean(
            SampleFile.jpeg.bytes(),
            type: "image/jpeg",
            for: row.account
        )
        #expect((image.width, image.height) == (30, 40))
        #expect(!image.bytes.contains(text: SampleFile.place))
        let cut = await Self.refusal { () async throws(Problem) in
            try await images.clean([0xFF, 0xD8, 0xFF], type: "image/jpeg", for: row.account)
        }
        #expect(cut?.code == .malformedBody)
        let bomb = await Self.refusal { () async throws(Problem) in
            try await images.clean(
                SampleFile.png.bytes(width: 10_000, height: 6_000),
                type: "image/png",
                for: row.account
            )
        }
        #expect(bomb?.code == .bodyTooLarge && bomb?.detail.contains("6000 × 10000") == true)
    }

    @Test func `an upload has a placeholder with the form of the upright image`() async throws {
        let images = ServerImages(folder: nil)
        let image = try await images.clean(
            SampleFile.jpeg.bytes(width: 90, height: 60),
            type: "image/jpeg",
            for: row.account
        )
        let placeholder = try #require(image.placeholder)
        #expect(image.height > image.width && placeholder.aspectRatio < 1)
        #expect((17...29).contains(placeholder.bytes.count))
        let again = try await images.clean(
            image.bytes,
            type: "image/jpeg",
            for: row.account
        )
        // It is that of the stored image.
        let difference =
            try #require(again.placeholder).averageColor.red
            - placeholder.averageColor.red
        #expect(abs(difference) < 0.05)
    }

    private static func refusal<Value>(
        _ body: () async throws(Problem) -> Value
    ) async -> Problem? {
        do throws(Problem) {
            _ = try await body()
            return nil
        } catch {
            return error
        }
    }
}
