import Foundation
import SanguineModel

extension SanguineClient {
    /// Images of the Sanguine server and of any other host: loaded once, decoded at the size of the
    /// view, and kept in memory and on disk.
    public var images: Images { Images(users: users) }
}

/// Loads and keeps images; see <doc:Showing-Images>.
///
/// ```swift
/// let size = ImageSize(width: 600, height: 400)
/// if let image = client.images.cached(.url(cover), fitting: size) { show(image) }
/// let image = try await client.images.image(.url(cover), fitting: size)
/// ```
///
/// May be used from any thread. A request ends when no caller waits for it. An image that is
/// visible is requested before one that is only awaited, and both before prefetched ones.
public struct Images: Sendable {
    let users: UserSwitcher

    private var services: ClientServices { users.services }
    private var engine: ImageEngine { services.images }

    // MARK: - Reading

    /// Returns the image that is in memory, at once and without a request.
    ///
    /// A view calls it in its first frame, so that it never shows a placeholder for an image that
    /// is in memory.
    ///
    /// - Parameters:
    ///   - source: The address of the image.
    ///   - size: The size at which it is shown, in pixels. Default: that of the file.
    /// - Returns: The image at that size or a larger one; if there is only a smaller one, it is
    ///   marked as a thumbnail. `nil` if the image is not in memory.
    public func cached(_ source: ImageSource, fitting size: ImageSize? = nil) -> LoadedImage? {
        guard services.configuration.refusal == nil else { return nil }
        return engine.cached(request(source, size))
    }

    /// Loads an image.
    ///
    /// - Parameters:
    ///   - source: The address of the image.
    ///   - size: The size at which it is shown, in pixels; the longer side is rounded up to one of
    ///     ``ImageLimits/sides``. Default: that of the file.
    ///   - priority: The priority of the request. Default: a caller waits for it.
    /// - Returns: The image, which has at most that size, and is never a thumbnail.
    /// - Throws: ``SanguineError``: a problem of the host; `unsupported_media_type` if the file is
    ///   no image that the client knows; `body_too_large` beyond ``ImageLimits/fileBytes`` or
    ///   ``ImageLimits/sourcePixels``; ``SanguineError/cancelled``;
    ///   ``SanguineError/userChanged`` for an image of a user who has left.
    public func image(
        _ source: ImageSource,
        fitting size: ImageSize? = nil,
        priority: FetchPriority = .normal
    ) async throws(SanguineError) -> LoadedImage {
        if let refusal = services.configuration.refusal { throw refusal }
        let newest = NewestImage()
        let order = RequestPriority(priority)
        // The caller gets one image, so a thumbnail would be useless.
        try await engine.load(request(source, size), thumbnail: nil, order) { newest.set($0) }
        guard let image = newest.image else { throw .cancelled }
        return image
    }

    /// Loads an image with its thumbnail first.
    ///
    /// ```swift
    /// for try await image in client.images.load(.file(id), fitting: size) { show(image) }
    /// ```
    ///
    /// The sequence has a thumbnail, unless the image is in memory, or small; then the full image;
    /// and then, if that was stale, the changed one. A thumbnail never follows the full image. The
    /// request ends when the sequence is released or its reader is cancelled.
    ///
    /// - Parameters:
    ///   - source: The address of the image.
    ///   - size: As for ``image(_:fitting:priority:)``.
    ///   - thumbnail: The address of a smaller image. Default: for a file of the server, its
    ///     thumbnail; for a URL, none.
    ///   - priority: The priority of the request. Default: a visible view waits for it.
    /// - Returns: The images, which end with an error if there is no full image.
    public func load(
        _ source: ImageSource,
        fitting size: ImageSize? = nil,
        thumbnail: ImageSource? = nil,
        priority: FetchPriority = .visible
    ) -> AsyncThrowingStream<LoadedImage, any Error> {
        let order = RequestPriority(priority)
        return AsyncThrowingStream { continuation in
            let task = Task {
                do throws(SanguineError) {
                    try await load(source, size, thumbnail: thumbnail, order) {
                        continuation.yield($0)
                    }
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    /// Loads images that will probably be needed soon, such as those of the next page.
    ///
    /// They wait behind all other images, and failures are ignored. If a view needs one of them
    /// before it is loaded, it is loaded with the view's priority.
    ///
    /// - Parameters:
    ///   - sources: The addresses, at most ``ImageLimits/prefetched``; further ones are ignored.
    ///   - size: As for ``image(_:fitting:priority:)``.
    /// - Returns: The prefetch, which ends when it is released.
    public func prefetch(
        _ sources: [ImageSource],
        fitting size: ImageSize? = nil
    ) -> ImagePrefetch {
        let sources = sources.prefix(ImageLimits.prefetched)
        return ImagePrefetch(
            task: Task {
                await withTaskGroup(of: Void.self) { group in
                    for source in sources {
                        group.addTask {
                            // The view that shows the image reports the failure.
                            _ = try? await image(source, fitting: size, priority: .prefetch)
                        }
                    }
                }
            }
        )
    }

    // MARK: - Keeping

    /// Numbers of the images since the client was created.
    public var statistics: ImageStatistics {
        var numbers = engine.statistics
        for disk in [services.sharedImages.disk, users.current.images.scope.disk] {
            let survey = disk.survey
            numbers.diskBytes += Int(survey.bytes)
            numbers.evictedFromDisk += survey.evicted
            numbers.damagedFiles += survey.damaged
            numbers.unwrittenFiles += survey.unwritten
        }
        return numbers
    }

    /// Evicts all images from memory that no view shows, as at a memory warning.
    ///
    /// The client calls it at the memory warnings of iOS, tvOS and visionOS. It does not when the
    /// app enters the background, so that no view flashes when the app returns.
    public func trimMemory() { engine.trim() }

    /// Removes an image from memory and disk in all sizes, because it has changed.
    public func remove(_ source: ImageSource) { engine.remove(request(source, nil)) }

    // MARK: - Requests

    /// Loads an image, and calls the closure with each version.
    func load(
        _ source: ImageSource,
        _ size: ImageSize?,
        thumbnail: ImageSource?,
        _ priority: RequestPriority,
        _ deliver: @escaping @Sendable (LoadedImage) -> Void
    ) async throws(SanguineError) {
        if let refusal = services.configuration.refusal { throw refusal }
        let whole = request(source, size)
        let small = ImageSize(
            width: ImageLimits.thumbnailSide,
            height: ImageLimits.thumbnailSide
        )
        var first: ImageEngine.Request?
        if let thumbnail {
            first = request(thumbnail, small)
        } else if case .file(let id) = whole.source.address, !LocalFile.isValid(id),
            whole.key.side >= ImageLimits.thumbnailFrom
        {
            first = request(source, small)
        }
        try await engine.load(whole, thumbnail: first, priority, deliver)
    }

    /// Resolves an address for the current user.
    func request(_ source: ImageSource, _ size: ImageSize?) -> ImageEngine.Request {
        let side = size?.side ?? Self.wholeSide
        let user = users.current.images.scope
        switch source.address {
        case .file(let id):
            let id = user.local?.realID(of: id) ?? id
            // A local file has one size.
            let fileSide = size == nil || LocalFile.isValid(id) ? 0 : side
            return .init(.file(id), user, id, side, fileSide: fileSide)
        case .url(let url):
            let (text, isSigned) = services.configuration.images.signedURLs.identity(of: url)
            let own = [
                services.configuration.server?.origin, services.configuration.baseURL?.origin,
            ]
            let isOwn = url.origin.map { own.contains($0) } ?? false
            let scope = isSigned || isOwn ? user : services.sharedImages
            return .init(source, scope, text, side, fileSide: 0)
        }
    }

    /// The side of an image that is not scaled down: larger than any other.
    private static let wholeSide = Int(Int32.max)
}

extension ImageEngine.Request {
    fileprivate init(
        _ source: ImageSource,
        _ scope: ImageEngine.Scope,
        _ resource: String,
        _ side: Int,
        fileSide: Int
    ) {
        self.init(
            source: source,
            scope: scope,
            key: ImageKey(scope: scope.number, resource: resource, side: side),
            fileKey: ImageFileKey(scope: scope.number, resource: resource, side: fileSide)
        )
    }
}

/// Images that are being loaded in advance, until this is released.
public final class ImagePrefetch: Sendable {
    private let task: Task<Void, Never>

    init(task: Task<Void, Never>) { self.task = task }

    deinit { task.cancel() }

    /// Ends the prefetch; images that a view needs are still loaded.
    public func cancel() { task.cancel() }

    /// Returns when all images were loaded, or have failed.
    public func finished() async { await task.value }
}
