import Foundation
import Sanguine
import SanguineTesting
import TestSupport
import Testing

/// The texts that were logged or shown.
private let shown = WatchedState<[String]>([])

private func show(_ text: String) { shown.withLock { $0.append(text) } }
private func log(_ text: String) { show(text) }

struct SendVideo: RemoteMutation {
    static let name = "video.send"
    let video: URL

    func effects(on view: inout MutationEffects) {}

    func send(_ request: MutationContext) async throws {
        try await request.post("videos", .file(video, type: "video/mp4")) { progress in
            log("\(progress.sentBytes) of \(progress.totalBytes) bytes")
        }
    }
}

/// The samples of the guide to uploads.
@Suite("Upload snippets", .bounded)
struct UploadSnippets {
    @Test func `the outbox shows the progress of a file`() async throws {
        let video = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try Data("four".utf8).write(to: video)
        defer { try? FileManager.default.removeItem(at: video) }
        let network = ScriptedTransport { _ in .status(204) }
        var configuration = SanguineClient.Configuration.inMemory()
        configuration.baseURL = URL(string: "https://api.example.org/v2")
        configuration.transport = network
        configuration.register(SendVideo.self)
        let client = try SanguineClient(configuration)
        defer { client.close() }

        network.hold(.requests)
        let receipt = try client.perform(SendVideo(video: video))
        try await network.waitForHeld(1)
        network.advanceUploads(to: 0.5)
        for operation in client.outbox.pending {
            guard let progress = operation.progress else { continue }
            show("\(operation.name): \(Int(progress.fraction * 100)) %")
        }
        network.release()
        #expect(try await receipt.outcome == .applied)

        #expect(
            shown.value == [
                "0 of 4 bytes", "2 of 4 bytes", "video.send: 50 %", "4 of 4 bytes",
            ]
        )
        #expect(network.requests.first?.body == Data("four".utf8))
    }
}

/// A transport that forwards uploads.
struct CountingTransport: UploadingTransport {
    let base = URLSessionTransport()

    func send(
        _ request: TransportRequest
    ) async throws(TransportError) -> TransportResponse {
        try await base.send(request)
    }

    func upload(
        _ request: TransportRequest,
        progress: @escaping @Sendable (UploadProgress) -> Void
    ) async throws(TransportError) -> TransportResponse {
        try await base.upload(request, progress: progress)
    }
}
