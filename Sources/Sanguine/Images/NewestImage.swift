import Synchronization

/// The last image that a request has delivered.
///
/// Mutable state: `newest`, protected by its mutex.
final class NewestImage: Sendable {
    private let newest = Mutex<LoadedImage?>(nil)

    var image: LoadedImage? { newest.withLock { $0 } }

    func set(_ image: LoadedImage) { newest.withLock { $0 = image } }
}
