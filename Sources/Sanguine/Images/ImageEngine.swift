import Foundation
import SanguineMedia
import SanguineModel
import Synchronization

/// Loads, decodes and keeps the images of a client; it outlives users.
///
/// A file is loaded once and an image is decoded once, however many callers wait. The work ends
/// when no caller waits for it.
///
/// Invariants:
///
/// 1. The memory holds no image of a user whose scope has ended.
/// 2. A thumbnail is not delivered after the full image.
/// 3. Nothing is decoded on the caller's thread, and at most ``ImageLimits/decoders`` at once.
///
/// Mutable state: `state`, protected by its mutex, which is held neither during I/O nor over the
/// decoder.
final class ImageEngine: Sendable {
    /// The images of one user, or those that all users share.
    struct Scope: Sendable {
        let number: ImageScope
        let disk: ImageDisk
        let fetcher: ImageFetcher
        /// The user's files that wait for their upload; `nil` for shared images.
        var local: LocalImages?
    }

    /// A request for an image, with the keys that it was resolved to.
    struct Request: Sendable {
        let source: ImageSource
        let scope: Scope
        let key: ImageKey
        /// The key of its file.
        let fileKey: ImageFileKey

        /// The address with the server's id, if a local file has been uploaded.
        var present: ImageSource {
            guard case .file(let id) = source.address, let real = scope.local?.realID(of: id)
            else { return source }
            return .file(real)
        }
    }

    /// A decoded image with its rules.
    private struct Arrival: Sendable {
        let image: DecodedImage
        let freshness: ImageFreshness
        let origin: LoadedImage.Origin
    }

    private struct State {
        var memory: ImageMemory<DecodedImage>
        /// The users whose images may be kept, and 0.
        var scopes: Set<ImageScope> = [0]
        var lastScope: ImageScope = 0
        /// The rules of images that must be checked again.
        var freshness: [ImageKey: ImageFreshness] = [:]
        var statistics = ImageStatistics()
    }

    let queue: RequestQueue
    private let state: Mutex<State>
    private let files = SharedLoads<ImageFileKey, ImageDisk.File>()
    private let images = SharedLoads<ImageKey, LoadedImage>()
    private let checks = SharedLoads<ImageKey, LoadedImage?>()
    private let decoding = RequestQueue(limits: .init(slots: ImageLimits.decoders))
    private let decoder: any ImageDecoder
    private let clock: any WallClock

    init(
        _ settings: ImageSettings,
        clock: any WallClock,
        decoder: any ImageDecoder = PlatformImageDecoder()
    ) {
        self.clock = clock
        self.decoder = decoder
        queue = RequestQueue(limits: .init(slots: ImageLimits.requestsPerHost))
        let limits = ImageMemory<DecodedImage>.Limits(
            bytes: settings.memoryBytes,
            images: settings.memoryImages
        )
        state = Mutex(State(memory: ImageMemory(limits: limits)))
    }

    // MARK: - Users

    /// Returns the number of a new user's images.
    func beginScope() -> ImageScope {
        state.withLock { state in
            state.lastScope += 1
            state.scopes.insert(state.lastScope)
            return state.lastScope
        }
    }

    /// Removes the images of a user who has left; callers that wait for one get the error.
    func end(_ scope: ImageScope, _ reason: SanguineError) {
        state.withLock { state in
            state.scopes.remove(scope)
            state.memory.removeAll(of: scope)
            state.freshness = state.freshness.filter { $0.key.scope != scope }
        }
        images.end(reason) { $0.scope == scope }
        checks.end(reason) { $0.scope == scope }
        files.end(reason) { $0.scope == scope }
    }

    /// Removes the images that all users share.
    func removeShared() {
        state.withLock { state in
            state.memory.removeAll(of: 0)
            state.freshness = state.freshness.filter { $0.key.scope != 0 }
        }
    }

    // MARK: - In memory

    /// Returns the image that is in memory and suits the request best, at once.
    func cached(_ request: Request) -> LoadedImage? {
        state.withLock { state in
            guard let (image, key, _) = state.memory.best(for: request.key) else { return nil }
            return LoadedImage(
                picture: image,
                key: key,
                isThumbnail: key.side < request.key.side,
                origin: .memory
            )
        }
    }

    /// Records that a view shows an image, or waits for it.
    func show(_ key: ImageKey) { state.withLock { $0.memory.show(key) } }

    /// Records that a view no longer shows an image.
    func hide(_ key: ImageKey) { state.withLock { $0.memory.hide(key) } }

    /// Evicts the images that no view shows.
    func trim() { state.withLock { $0.memory.trim() } }

    /// Removes an image from memory and disk.
    func remove(_ request: Request) {
        state.withLock { state in
            state.memory.remove(request.key.resource, of: request.key.scope)
            state.freshness = state.freshness.filter { key, _ in
                key.scope != request.key.scope || key.resource != request.key.resource
            }
        }
        for side in [0] + ImageLimits.sides {
            request.scope.disk.remove(
                ImageFileKey(
                    scope: request.key.scope,
                    resource: request.key.resource,
                    side: side
                )
            )
        }
    }

    /// The current numbers, without those of the disks.
    var statistics: ImageStatistics {
        state.withLock { state in
            var numbers = state.statistics
            numbers.evictedFromMemory = state.memory.evicted
            numbers.memoryImages = state.memory.count
            numbers.memoryBytes = state.memory.cost
            numbers.visibleImages = state.memory.visibleCount
            return numbers
        }
    }

    /// Counts a request to a host, or the bytes of its response.
    func count(received bytes: Int) {
        state.withLock { state in
            if bytes == 0 { state.statistics.requests += 1 }
            state.statistics.receivedBytes += bytes
        }
    }

    /// The number of images that are being loaded.
    var inFlight: Int { images.count + checks.count }

    private func count(_ number: WritableKeyPath<ImageStatistics, Int>) {
        state.withLock { $0.statistics[keyPath: number] += 1 }
    }

    // MARK: - Loading

    /// Loads an image.
    ///
    /// - Parameters:
    ///   - request: The request.
    ///   - thumbnail: A smaller image to load first; `nil` for none.
    ///   - priority: The priority, which may be raised.
    ///   - deliver: Called with each image: a thumbnail, the full image, and the changed one if the
    ///     full image was stale. Never with a thumbnail after a full image.
    /// - Throws: ``SanguineError`` if there is no full image.
    func load(
        _ request: Request,
        thumbnail: Request?,
        _ priority: RequestPriority,
        _ deliver: @escaping @Sendable (LoadedImage) -> Void
    ) async throws(SanguineError) {
        let delivery = ImageDelivery(deliver)
        if let known = cached(request) {
            delivery.deliver(known)
            if !known.isThumbnail {
                count(\.memoryHits)
                return await check(request, known.key, priority, delivery)
            }
        }
        do throws(SanguineError) {
            let image = try await full(request, thumbnail: thumbnail, priority, delivery)
            await check(request, image.key, priority, delivery)
        } catch {
            count(error == .cancelled ? \.cancelled : \.failed)
            throw error
        }
    }

    /// Loads the full image, and its thumbnail at the same time.
    private func full(
        _ request: Request,
        thumbnail: Request?,
        _ priority: RequestPriority,
        _ delivery: ImageDelivery
    ) async throws(SanguineError) -> LoadedImage {
        let result = await withTaskGroup(
            of: Void.self,
            returning: Result<LoadedImage, SanguineError>.self
        ) { group in
            // A full image on disk is loaded as fast as its thumbnail.
            let isNear = [request.fileKey, request.fileKey.original].contains {
                request.scope.disk.contains($0)
            }
            if let thumbnail, !delivery.hasDelivered, !isNear {
                group.addTask { [self] in
                    guard let image = try? await loadedImage(thumbnail, priority) else { return }
                    if !delivery.deliver(image.asThumbnail) { count(\.lateThumbnails) }
                }
            }
            let result: Result<LoadedImage, SanguineError>
            do throws(SanguineError) {
                result = .success(try await loadedImage(request, priority))
            } catch {
                result = .failure(error)
            }
            if case .success(let image) = result { delivery.deliver(image) }
            group.cancelAll()
            return result
        }
        let image = try result.get()
        switch image.origin {
        case .memory: count(\.memoryHits)
        case .disk: count(\.diskHits)
        case .network: count(\.misses)
        }
        return image
    }

    /// Returns an image from its load.
    private func loadedImage(
        _ request: Request,
        _ priority: RequestPriority
    ) async throws(SanguineError) -> LoadedImage {
        try await images.value(
            of: request.key,
            priority: priority,
            onShared: { count(\.shared) }
        ) { [self] priority in
            // The last load may have ended after the caller looked.
            if let known = cached(request), !known.isThumbnail { return .success(known) }
            do throws(SanguineError) {
                let (picture, file) = try await opened(request, priority)
                keep(picture, file.freshness, for: request.key)
                return .success(
                    LoadedImage(
                        picture: picture,
                        key: request.key,
                        isThumbnail: false,
                        origin: file.isFromDisk ? .disk : .network
                    )
                )
            } catch {
                return .failure(error)
            }
        }
    }

    /// Returns an image and its file.
    ///
    /// A file that cannot be decoded is removed from the disk, where it would fail at every use,
    /// and loaded from its host once.
    private func opened(
        _ request: Request,
        _ priority: RequestPriority
    ) async throws(SanguineError) -> (DecodedImage, ImageDisk.File) {
        var mayRepeat = true
        while true {
            let file = try await loadedFile(request, priority)
            do throws(SanguineError) {
                return (try await decoded(file.data, request.key.side, priority), file)
            } catch {
                guard case .problem(let problem) = error, problem.code == .malformedBody else {
                    throw error
                }
                request.scope.disk.remove(request.fileKey)
                guard file.isFromDisk, mayRepeat else { throw error }
                mayRepeat = false
            }
        }
    }

    /// Returns the file of an image, from disk or its host.
    private func loadedFile(
        _ request: Request,
        _ priority: RequestPriority
    ) async throws(SanguineError) -> ImageDisk.File {
        try await files.value(of: request.fileKey, priority: priority) {
            [self] priority in
            let scope = request.scope
            let key = request.fileKey
            if let near = await storedFile(request) { return .success(near) }
            do throws(SanguineError) {
                let answer = try await scope.fetcher.load(
                    request.present,
                    side: key.side,
                    known: nil,
                    priority: priority
                )
                guard case .file(let sent) = answer else { throw .problem(.notAnImage) }
                scope.disk.write(sent.data, sent.freshness, for: key)
                return .success(
                    ImageDisk.File(data: sent.data, freshness: sent.freshness, isFromDisk: false)
                )
            } catch {
                return .failure(error)
            }
        }
    }

    /// Returns the file of an image that is on this device; `nil` if there is none.
    ///
    /// For a file of the server, its original serves all sizes, such as that of an image that was
    /// uploaded from here.
    private func storedFile(_ request: Request) async -> ImageDisk.File? {
        let (scope, key) = (request.scope, request.fileKey)
        if let stored = await scope.disk.read(key) { return stored }
        guard case .file(let id) = request.source.address else { return nil }
        if LocalFile.isValid(id) {
            if let file = scope.local?.file(id) { return file }
            // It was uploaded after the request was resolved.
            guard let real = scope.local?.realID(of: id) else { return nil }
            return await scope.disk.read(
                ImageFileKey(scope: scope.number, resource: real, side: 0)
            )
        }
        return key.side == 0 ? nil : await scope.disk.read(key.original)
    }

    /// Moves the images of a local file to the id that the server has given it.
    func uploaded(_ local: String, as real: String, in scope: Scope, _ data: Data?) {
        state.withLock { $0.memory.move(local, to: real, of: scope.number) }
        guard let data, ImageHeader(data) != nil else { return }
        let key = ImageFileKey(scope: scope.number, resource: real, side: 0)
        scope.disk.write(data, .immutable, for: key)
    }

    /// Decodes a file when a decoder is free.
    private func decoded(
        _ data: Data,
        _ side: Int,
        _ priority: RequestPriority
    ) async throws(SanguineError) -> DecodedImage {
        let ticket = try await decoding.enter("decoder", priority)
        defer { ticket.release() }
        if Task.isCancelled { throw .cancelled }
        guard let header = ImageHeader(data), let image = decoder.decode(data, header, side: side)
        else { throw .problem(.damagedImage) }
        return image
    }

    private func keep(
        _ image: DecodedImage,
        _ freshness: ImageFreshness,
        for key: ImageKey
    ) {
        state.withLock { state in
            guard state.scopes.contains(key.scope) else { return }
            state.freshness[key] = freshness.expiry == nil ? nil : freshness
            state.memory.add(
                image,
                for: key,
                cost: image.cost,
                expiry: freshness.expiry
            )
            // Rules of evicted images are dropped as soon as they outnumber the images.
            if state.freshness.count > 2 * state.memory.count + 16 {
                let memory = state.memory
                state.freshness = state.freshness.filter { memory.contains($0.key) }
            }
        }
    }

    // MARK: - Checking

    /// Asks the host whether a stale image has changed, and delivers the changed one.
    ///
    /// If the host cannot be asked, the image stays as it is.
    private func check(
        _ request: Request,
        _ shown: ImageKey,
        _ priority: RequestPriority,
        _ delivery: ImageDelivery
    ) async {
        let now = clock.now()
        let known = state.withLock { $0.freshness[shown] }
        guard let known, let expiry = known.expiry, expiry <= now else { return }
        let newer = try? await checks.value(of: request.key, priority: priority) {
            [self] priority in
            do throws(SanguineError) {
                return .success(try await reloaded(request, shown, known, priority))
            } catch {
                return .failure(error)
            }
        }
        if let image = newer { delivery.deliver(image) }
    }

    /// Returns the changed image; `nil` if it has not changed.
    private func reloaded(
        _ request: Request,
        _ shown: ImageKey,
        _ known: ImageFreshness,
        _ priority: RequestPriority
    ) async throws(SanguineError) -> LoadedImage? {
        let answer = try await request.scope.fetcher.load(
            request.source,
            side: request.fileKey.side,
            known: known,
            priority: priority
        )
        switch answer {
        case .unchanged(var freshness):
            freshness.tag = freshness.tag ?? known.tag
            freshness.modified = freshness.modified ?? known.modified
            state.withLock { state in
                state.statistics.unchanged += 1
                guard state.freshness[shown] != nil else { return }
                state.freshness[shown] = freshness
                state.memory.renew(shown, expiry: freshness.expiry)
            }
            request.scope.disk.renew(freshness, for: request.fileKey)
            return nil
        case .file(let file):
            // A damaged file does not replace the stale one.
            let picture = try await decoded(file.data, request.key.side, priority)
            request.scope.disk.write(file.data, file.freshness, for: request.fileKey)
            // Other sizes of it are as old as the shown one.
            state.withLock { $0.memory.remove(request.key.resource, of: request.key.scope) }
            keep(picture, file.freshness, for: request.key)
            return LoadedImage(
                picture: picture,
                key: request.key,
                isThumbnail: false,
                origin: .network
            )
        }
    }
}

/// Delivers the images of one request in an order in which none gets worse.
///
/// Mutable state: `isFull`, protected by its mutex, which is held during the delivery, so that the
/// order is that of the decisions; the closure only passes the image on.
final class ImageDelivery: Sendable {
    private struct State {
        var hasDelivered = false
        var isFull = false
    }

    private let state = Mutex(State())
    private let body: @Sendable (LoadedImage) -> Void

    init(_ body: @escaping @Sendable (LoadedImage) -> Void) { self.body = body }

    /// Whether any image was delivered.
    var hasDelivered: Bool { state.withLock { $0.hasDelivered } }

    /// Delivers an image, unless it is a thumbnail and the full image was delivered.
    ///
    /// - Returns: Whether it was delivered.
    @discardableResult
    func deliver(_ image: LoadedImage) -> Bool {
        state.withLock { state in
            guard !image.isThumbnail || !state.isFull else { return false }
            state.hasDelivered = true
            state.isFull = state.isFull || !image.isThumbnail
            body(image)
            return true
        }
    }
}

extension LoadedImage {
    /// The image as the thumbnail of a larger one.
    fileprivate var asThumbnail: LoadedImage {
        LoadedImage(picture: picture, key: key, isThumbnail: true, origin: origin)
    }
}
