import Foundation
import Sanguine
import SanguineModel
import Synchronization

/// A client that scrolls a thousand images in random order: their requests, and their memory after
/// every image.
///
/// Together the images are larger than the memory for them, so that most are read from disk again.
enum ScrollBenchmarks {
    private static let images = 1_000
    /// The number of images that come into view, each at least once.
    private static let views = 4_000
    /// The number of images on the screen.
    private static let screen = 12
    private static let size = ImageSize(width: 600, height: 400)

    static func run() async throws -> [Figure] {
        let folder = try Folder()
        let host = Host()
        var configuration = SanguineClient.Configuration(server: URL(string: "http://localhost"))
        configuration.folder = folder.url
        configuration.transport = host
        configuration.recordPolling = nil
        let client = try SanguineClient(configuration)
        let before = try AllocatedMemory.megabytes()
        let board = Board()
        let time = try await ContinuousClock().measure {
            try await scroll { number in
                let image = try await client.images.image(source(number), fitting: size)
                guard image.width == 600 else { throw BenchmarkError.wrong("the image's size") }
                let numbers = client.images.statistics
                try board.peak.withLock { peak in
                    peak.bytes = max(peak.bytes, numbers.memoryBytes)
                    peak.images = max(peak.images, numbers.memoryImages)
                    peak.shown += 1
                    guard peak.shown.isMultiple(of: 200) else { return }
                    peak.allocated = max(peak.allocated, try AllocatedMemory.megabytes() - before)
                }
            }
        }
        client.close()
        guard host.names == images else { throw BenchmarkError.wrong("the number of images") }
        return figures(board.peak.withLock(\.self), time, requests: host.requests)
    }

    private struct Peak {
        var shown = 0
        var bytes = 0
        var images = 0
        /// In megabytes.
        var allocated = 0.0
    }

    private final class Board: Sendable {
        let peak = Mutex(Peak())
    }

    private static func figures(_ peak: Peak, _ time: Duration, requests: Int) -> [Figure] {
        let name = "scrolling \(images.formatted()) images in random order"
        return [
            Figure(
                cost: "\(name), requests for each",
                Double(requests) / Double(images),
                unit: "requests",
                of: "one",
                1,
                atMost: 1
            ),
            Figure(
                cost: "\(name), most memory of images",
                Double(peak.bytes) / 1_000_000,
                unit: "MB",
                of: "the limit",
                Double(ImageLimits.memoryBytes) / 1_000_000,
                atMost: 1
            ),
            Figure(
                cost: "\(name), most images in memory",
                Double(peak.images),
                unit: "images",
                of: "the limit",
                Double(ImageLimits.memoryImages),
                atMost: 1
            ),
            Figure(
                cost: "\(name), most allocated memory",
                peak.allocated,
                unit: "MB",
                of: "the limit of the images",
                Double(ImageLimits.memoryBytes) / 1_000_000,
                atMost: 1.5
            ),
            Figure(
                cost: "\(name), until an image is shown",
                time / .milliseconds(1) * Double(screen) / Double(views),
                unit: "ms",
                of: "a request",
                Host.latency / .milliseconds(1),
                atMost: 2
            ),
        ]
    }

    private static func source(_ number: Int) -> ImageSource {
        .url(URL(string: "https://images.test/\(number).png") ?? URL(filePath: "/"))
    }

    /// Shows images, as many at once as the screen has.
    private static func scroll(_ show: @escaping @Sendable (Int) async throws -> Void) async throws
    {
        let first = Array(0..<images)
        let order = first.shuffled() + (images..<views).map { _ in .random(in: 0..<images) }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (place, number) in order.enumerated() {
                if place >= screen { try await group.next() }
                group.addTask { try await show(number) }
            }
            try await group.waitForAll()
        }
    }

    /// A host of images of 150 KB, which answers after a while and counts the requests.
    private final class Host: HTTPTransport {
        static let latency: Duration = .milliseconds(20)
        private static let imageBytes = 150_000

        private let counts = Mutex<[String: Int]>([:])

        /// The number of all requests.
        var requests: Int { counts.withLock { $0.values.reduce(0, +) } }
        /// The number of different images.
        var names: Int { counts.withLock(\.count) }

        func send(_ request: TransportRequest) async throws(TransportError) -> TransportResponse {
            guard request.url.host() == "images.test" else {
                throw .offline("The benchmark's network has only images.")
            }
            counts.withLock { $0[request.url.path(), default: 0] += 1 }
            try? await Task.sleep(for: Self.latency)
            return TransportResponse(
                status: 200,
                headers: ["content-type": "image/png"],
                body: Self.image
            )
        }

        /// The header of a PNG image of 600 × 400, and data that no decoder reads.
        private static var image: Data {
            var bytes: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13]
            bytes += Array("IHDR".utf8) + [0, 0, 0x02, 0x58, 0, 0, 0x01, 0x90]
            return Data(bytes) + Data(count: imageBytes - bytes.count)
        }
    }
}
