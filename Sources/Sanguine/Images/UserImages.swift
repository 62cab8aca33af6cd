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
    init(_ services: ClientServices, _ folder: URL?, _ attempts: ReadAttempts) {
        engine = services.images
        scope = services.images.scope(
            services.images.beginScope(),
            services.configuration,
            folder: folder,
            attempts
        )
    }

    /// Removes the user's images from memory; nothing is written to disk after this returns.
    func end(_ reason: SanguineError) {
        engine.end(scope.number, reason)
        scope.disk.end()
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
