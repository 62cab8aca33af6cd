package import Foundation
package import SanguineAuthority
package import SanguineImages
package import SanguineModel
import Synchronization

/// Cleans and scales images with libvips, and keeps the thumbnails.
///
/// Requests for the same thumbnail share one decoding. A request that is cancelled returns at once,
/// and the last one ends the decoding.
///
/// Mutable state: `jobs`, guarded by its mutex. At most one for each request in progress.
package final class ServerImages: ImageProcessor {
    /// The bytes of stored files that are in memory to be scaled: 32 MiB.
    package static let fileBytes = 32 << 20

    private typealias Caller = OneShotValue<Result<Thumbnail, Problem>>

    private struct Job {
        let number: UInt64
        let task: Task<Void, Never>
        /// The requests that wait, by number.
        var callers: [UInt64: Caller]
    }

    private struct Jobs {
        var running: [ThumbnailCache.Key: Job] = [:]
        var lastNumber: UInt64 = 0
    }

    private let vips: VipsImages
    private let cache: ThumbnailCache
    private let files = MemoryTurns(limit: fileBytes)
    private let jobs = Mutex(Jobs())

    /// Creates an instance.
    ///
    /// - Parameters:
    ///   - folder: The folder for thumbnails; `nil` to keep them in memory only.
    ///   - vips: The decoder. Default: that of the process.
    package init(folder: URL?, vips: VipsImages = .shared) {
        cache = ThumbnailCache(in: folder)
        self.vips = vips
    }

    package func clean(
        _ file: [UInt8],
        type: String,
        for account: Identifier
    ) async throws(Problem) -> CleanedImage {
        guard let format = ImageFormat(rawValue: type) else { throw .incomplete(type) }
        do throws(ImageFailure) {
            let image = try await vips.clean(file, as: format, for: .account(account))
            guard image.bytes.count <= WireLimits.blobBytes else { throw .unsupported }
            return CleanedImage(
                bytes: image.bytes,
                type: image.format.rawValue,
                width: image.facts.width,
                height: image.facts.height,
                placeholder: await placeholder(of: image, for: account)
            )
        } catch {
            throw Problem(error, type)
        }
    }

    /// Computes the placeholder of an image; `nil` if its turn does not come.
    private func placeholder(
        of image: EncodedImage,
        for account: Identifier
    ) async -> ThumbHash? {
        let pixels = try? await vips.pixels(
            of: image.bytes,
            as: image.format,
            side: ThumbHash.longestSide,
            for: .account(account)
        )
        guard let pixels else { return nil }
        return await WireBody.perform(ifLong: true, for: account) {
            ThumbHash(width: pixels.width, height: pixels.height, rgba: pixels.rgba)
        }
    }

    package func thumbnail(
        of image: BlobRow,
        side: Int,
        from file: @escaping @Sendable () async throws(Problem) -> [UInt8]
    ) async throws(Problem) -> Thumbnail {
        let key = ThumbnailCache.Key(image: image.id, side: side)
        if let thumbnail = cache.remembered(key) { return thumbnail }
        let caller = Caller()
        let number = join(key, caller) { [self] () async throws(Problem) in
            try await make(key, image, file)
        }
        let result = await withTaskCancellationHandler {
            await caller.wait()
        } onCancel: {
            // The job continues if other requests wait for it.
            caller.resolve(.failure(Problem(scaling: .cancelled, image.type)))
            leave(key, number)
        }
        return try result.get()
    }

    /// The number of requests that wait for a thumbnail.
    var waiting: Int {
        jobs.withLock { $0.running.values.reduce(0) { $0 + $1.callers.count } }
    }

    package func removeThumbnails(of id: BlobID) async { await cache.remove(of: id) }

    /// Adds a request to the job that makes a thumbnail, and starts one if there is none.
    ///
    /// - Returns: The number of the request.
    private func join(
        _ key: ThumbnailCache.Key,
        _ caller: Caller,
        _ make: @escaping @Sendable () async throws(Problem) -> Thumbnail
    ) -> UInt64 {
        jobs.withLock { jobs in
            jobs.lastNumber += 1
            let number = jobs.lastNumber
            if jobs.running[key] != nil {
                jobs.running[key]?.callers[number] = caller
                return number
            }
            let task = Task { [self] in end(key, number, await Result(awaiting: make)) }
            jobs.running[key] = Job(number: number, task: task, callers: [number: caller])
            return number
        }
    }

    /// Removes a request that was cancelled; the last one ends its job.
    private func leave(_ key: ThumbnailCache.Key, _ number: UInt64) {
        let abandoned = jobs.withLock { jobs -> Job? in
            guard jobs.running[key]?.callers.removeValue(forKey: number) != nil,
                jobs.running[key]?.callers.isEmpty == true
            else { return nil }
            return jobs.running.removeValue(forKey: key)
        }
        abandoned?.task.cancel()
    }

    /// Ends a job with its result, unless all of its requests were cancelled.
    private func end(
        _ key: ThumbnailCache.Key,
        _ number: UInt64,
        _ result: Result<Thumbnail, Problem>
    ) {
        let callers = jobs.withLock { jobs -> [Caller] in
            guard let job = jobs.running[key], job.number == number else { return [] }
            jobs.running[key] = nil
            return Array(job.callers.values)
        }
        for caller in callers { caller.resolve(result) }
    }

    private func make(
        _ key: ThumbnailCache.Key,
        _ image: BlobRow,
        _ file: @escaping @Sendable () async throws(Problem) -> [UInt8]
    ) async throws(Problem) -> Thumbnail {
        if let thumbnail = await cache.find(key) { return thumbnail }
        guard let format = ImageFormat(rawValue: image.type) else { throw .incomplete(image.type) }
        let result: Result<EncodedImage, Problem>
        do throws(ImageFailure) {
            result = try await files.perform(Int(clamping: image.size)) {
                () async throws(ImageFailure) -> Result<EncodedImage, Problem> in
                let bytes: [UInt8]
                do throws(Problem) { bytes = try await file() } catch { return .failure(error) }
                let thumbnail = try await vips.thumbnail(
                    of: bytes,
                    as: format,
                    side: key.side,
                    for: .account(image.account)
                )
                return .success(thumbnail)
            }
        } catch {
            throw Problem(scaling: error, image.type)
        }
        let scaled = try result.get()
        let thumbnail = Thumbnail(bytes: scaled.bytes, type: scaled.format.rawValue)
        await cache.store(thumbnail, key)
        return thumbnail
    }
}

extension Problem {
    /// The refusal of an uploaded image.
    fileprivate init(_ failure: ImageFailure, _ type: String) {
        switch failure {
        case .unreadable: self = .incomplete(type)
        case .unsupported:
            self.init(
                .unsupportedMediaType,
                "Send the image as JPEG: the coding of this \(type) is not accepted."
            )
        case .tooLarge(let facts) where facts.frames > 1:
            self.init(
                .bodyTooLarge,
                """
                Send an animation of at most \(DecodingLimits().frames) frames and \
                \(WireLimits.blobPixels) pixels in all: this one has \(facts.frames) frames of \
                \(facts.width) × \(facts.height).
                """
            )
        case .tooLarge(let facts): self = .tooManyPixels(facts.width, facts.height)
        case .timeout:
            self.init(
                .invalidContent,
                "Send a smaller or simpler image: this one takes too long to decode."
            )
        case .cancelled: self.init(.overloaded, "Send the file again: the upload was cancelled.")
        case .unavailable:
            self.init(
                .unsupportedMediaType,
                "Send an image of another type: this server has no decoder for \(type)."
            )
        }
    }

    /// The refusal of a thumbnail.
    fileprivate init(scaling failure: ImageFailure, _ type: String) {
        switch failure {
        case .cancelled: self.init(.overloaded, "Ask again: the request was cancelled.")
        default:
            self.init(
                .invalidContent,
                "Leave 'w' and 'h' out: this \(type) cannot be scaled, only read as it is."
            )
        }
    }
}
