import Foundation
import SanguineModel
import Synchronization

/// The images of one user: their part of the memory, and the files in their folder.
final class UserImages: Sendable {
    // No mutable state itself: each part guards its own state.
    let scope: ImageEngine.Scope
    private let engine: ImageEngine

    /// - Parameters:
    ///   - services: The services that outlive the user.
    ///   - folder: The user's folder; `nil` stores nothing on disk.
    ///   - attempts: Sends requests in the user's name.
    ///   - local: The user's files that wait for their upload.
    init(
        _ services: ClientServices,
        _ folder: URL?,
        _ attempts: ReadAttempts,
        local: LocalImages
    ) {
        engine = services.images
        var scope = services.images.scope(
            services.images.beginScope(),
            services.configuration,
            folder: folder,
            attempts
        )
        scope.local = local
        self.scope = scope
    }

    /// Shows an image that was uploaded under the server's id, in memory and on disk.
    ///
    /// - Parameters:
    ///   - local: The id of the file before the upload.
    ///   - real: The server's id.
    ///   - data: The content of the file, if it may be an image.
    func uploaded(_ local: String, as real: String, _ data: Data?) {
        engine.uploaded(local, as: real, in: scope, data)
    }

    /// Removes the user's images from memory; nothing is written to disk after this returns.
    func end(_ reason: SanguineError) {
        engine.end(scope.number, reason)
        scope.disk.end()
    }
}

/// The images of a user that are on this device and wait for their upload.
struct LocalImages: Sendable {
    private let outbox: OutboxEngine

    init(_ outbox: OutboxEngine) { self.outbox = outbox }

    /// Returns the server's id of a local file; `nil` if it was not uploaded, or is no local file.
    func realID(of id: String) -> String? { outbox.storedFile(id) }

    /// Returns a file; `nil` if it is gone.
    func file(_ id: String) -> ImageDisk.File? {
        outbox.file.staged.data(of: id).map { ImageDisk.File(data: $0, freshness: .immutable) }
    }
}

extension ImageEngine {
    private static let queueLabel = "sanguine.images"

    /// Creates the scope of a user, or the shared one.
    func scope(
        _ number: ImageScope,
        _ configuration: SanguineClient.Configuration,
        folder: URL?,
        _ attempts: ReadAttempts
    ) -> Scope {
        let disk = ImageDisk(
            in: folder,
            limit: configuration.images.diskBytes,
            queue: configuration.queue(Self.queueLabel),
            clock: configuration.clock
        )
        let fetcher = ImageFetcher(
            attempts: attempts.with(queue: queue),
            clock: configuration.clock
        ) { [weak self] in self?.count(received: $0) }
        return Scope(number: number, disk: disk, fetcher: fetcher)
    }
}

extension ReadAttempts {
    /// The same attempts whose requests wait in another queue.
    fileprivate func with(queue: RequestQueue) -> ReadAttempts {
        ReadAttempts(
            backend: backend.with(queue),
            delay: delay,
            random: random,
            schedule: schedule,
            refusal: refusal,
            switches: switches,
            steps: steps
        )
    }
}
