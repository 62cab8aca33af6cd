import Foundation
public import Observation
public import SanguineModel

/// An image for a view: the placeholder, the thumbnail, and the full image.
///
/// ```swift
/// @State var cover: ImageModel  // client.images.model(.url(url), fitting: size)
///
/// SomeView(cover.image?.cgImage, placeholder: cover.placeholder)
///     .onAppear { cover.appear() }
///     .onDisappear { cover.disappear() }
/// ```
///
/// An image in memory is shown as soon as the model is created. The image never gets worse: a
/// thumbnail does not replace the full image, and a failure keeps what is shown. A view that is
/// reused for another image calls ``show(_:fitting:placeholder:)``; an answer for the former image
/// is dropped.
@MainActor
@Observable
public final class ImageModel {
    /// The content that a view shows.
    public enum Phase: Sendable, Hashable {
        /// There is no image, and none is being loaded, because the view has not appeared.
        case empty
        /// There is no image yet; it is being loaded.
        case loading
        /// There is a thumbnail, and the full image is being loaded.
        case thumbnail
        /// There is the full image.
        case ready
        /// There is no full image, because the request failed; see ``ImageModel/error``.
        case failed
    }

    /// The image, or its thumbnail; `nil` until one has arrived.
    public private(set) var image: LoadedImage?
    /// The content to show.
    public private(set) var phase = Phase.empty
    /// The error of the last request; `nil` if it succeeded or is running.
    public private(set) var error: SanguineError?
    /// The blurred image to show until there is one; `nil` for none.
    public private(set) var placeholder: ThumbHash?

    @ObservationIgnored private let images: Images
    @ObservationIgnored private var source: ImageSource?
    @ObservationIgnored private var size: ImageSize?
    /// Whether a view shows the image: between ``appear()`` and ``disappear()``.
    @ObservationIgnored public private(set) var isVisible = false
    /// Counts the requests, so that answers to earlier ones are dropped.
    @ObservationIgnored private var generation = 0
    // Isolated deinit would cancel later; a task may be cancelled from any thread.
    @ObservationIgnored private let running = RunningLoad()
    /// The keys that are marked as visible in the memory.
    @ObservationIgnored private let marks: VisibleImages

    init(_ images: Images, _ source: ImageSource?, _ size: ImageSize?, _ placeholder: ThumbHash?) {
        self.images = images
        marks = VisibleImages(images.users.services.images)
        (self.source, self.size, self.placeholder) = (source, size, placeholder)
        images.users.services.imageModels.add(self)
        lookUp()
    }

    /// Starts loading the image, because the view is visible.
    ///
    /// Call it each time that the view appears. It does nothing if the image is shown and fresh.
    public func appear() {
        guard !isVisible else { return }
        isVisible = true
        lookUp()
        start()
    }

    /// Ends the request, because the view is no longer visible; the image stays.
    public func disappear() {
        guard isVisible else { return }
        isVisible = false
        stop()
        if phase == .loading { phase = .empty }
    }

    /// Shows another image, as a reused cell does.
    ///
    /// - Parameters:
    ///   - source: The address of the image; `nil` for none.
    ///   - size: The size at which it is shown, in pixels. Default: that of the file.
    ///   - placeholder: The blurred image to show until there is one. Default: none.
    public func show(
        _ source: ImageSource?,
        fitting size: ImageSize? = nil,
        placeholder: ThumbHash? = nil
    ) {
        self.placeholder = placeholder
        guard source != self.source || size != self.size else { return }
        stop()
        // The same image at another size stays until the new one is loaded.
        if source != self.source { image = nil }
        (self.source, self.size, error) = (source, size, nil)
        phase = image == nil ? .empty : .thumbnail
        lookUp()
        if isVisible { start() }
    }

    /// Loads the image again after a failure; if no view shows it, at the next ``appear()``.
    public func retry() {
        guard phase == .failed else { return }
        stop()
        error = nil
        phase = image == nil ? .empty : .thumbnail
        lookUp()
        if isVisible { start() }
    }

    /// Drops an image of the former user, before the call returns.
    func userChanged() {
        stop()
        (image, error, phase) = (nil, nil, .empty)
        lookUp()
        if isVisible { start() }
    }

    private func lookUp() {
        guard let source, let known = images.cached(source, fitting: size) else { return }
        receive(known)
    }

    private func start() {
        guard let source else { return }
        generation += 1
        let (number, images, size) = (generation, images, size)
        marks.replace(with: [images.request(source, size).key] + [image?.key].compactMap(\.self))
        if image == nil { phase = .loading }
        error = nil
        let stream = images.load(source, fitting: size)
        running.replace(
            with: Task { [weak self] in
                do {
                    for try await image in stream {
                        guard let self, generation == number else { return }
                        receive(image)
                    }
                } catch {
                    self?.fail(SanguineError(error), number)
                }
            }
        )
    }

    private func stop() {
        generation += 1
        running.replace(with: nil)
        marks.replace(with: [])
    }

    private func receive(_ new: LoadedImage) {
        error = nil
        let isWorse = new.isThumbnail && image?.isThumbnail == false
        guard !isWorse else { return }
        // A view is only drawn again if what it shows has changed.
        if image != new { image = new }
        phase = new.isThumbnail ? .thumbnail : .ready
        if isVisible, let source {
            marks.replace(with: [images.request(source, size).key, new.key])
        }
    }

    private func fail(_ failure: SanguineError, _ number: Int) {
        guard generation == number else { return }
        guard failure != .cancelled else { return }
        error = failure
        if image?.isThumbnail != false { phase = .failed }
    }
}

extension Images {
    /// Returns an image as an observable object for a view.
    ///
    /// - Parameters:
    ///   - source: The address of the image; `nil` for none.
    ///   - size: The size at which it is shown, in pixels. Default: that of the file.
    ///   - placeholder: The blurred image to show until there is one. Default: none.
    /// - Returns: A new object. It loads nothing before ``ImageModel/appear()``.
    @MainActor
    public func model(
        _ source: ImageSource?,
        fitting size: ImageSize? = nil,
        placeholder: ThumbHash? = nil
    ) -> ImageModel {
        ImageModel(self, source, size, placeholder)
    }
}

/// The task of a model, which ends with it.
///
/// Mutable state: `task`, used on the main actor, and once after the model has gone.
@MainActor
private final class RunningLoad {
    // Unsafe: only the main actor writes it, and the deinitializer reads it when nothing else can.
    nonisolated(unsafe) private var task: Task<Void, Never>?

    func replace(with task: Task<Void, Never>?) {
        self.task?.cancel()
        self.task = task
    }

    deinit { task?.cancel() }
}

/// The images that one view shows, as the memory counts them.
@MainActor
private final class VisibleImages {
    private let engine: ImageEngine
    // Unsafe: only the main actor writes it, and the deinitializer reads it when nothing else can.
    nonisolated(unsafe) private var keys: Set<ImageKey> = []

    init(_ engine: ImageEngine) { self.engine = engine }

    func replace(with keys: [ImageKey]) {
        let new = Set(keys)
        // The new ones first, so that an image in both stays visible.
        for key in new.subtracting(self.keys) { engine.show(key) }
        for key in self.keys.subtracting(new) { engine.hide(key) }
        self.keys = new
    }

    deinit { for key in keys { engine.hide(key) } }
}

/// The models of views, which drop the images of a user who leaves.
@MainActor
final class ImageModelTable {
    private struct Entry {
        weak var model: ImageModel?
    }

    nonisolated private static let fewEntries = 64
    private var entries: [Entry] = []
    private var limit = ImageModelTable.fewEntries

    nonisolated init() {}

    func add(_ model: ImageModel) {
        entries.append(Entry(model: model))
        guard entries.count > limit else { return }
        entries.removeAll { $0.model == nil }
        limit = max(Self.fewEntries, 2 * entries.count)
    }

    /// Drops the images of the former user.
    func userChanged() { for entry in entries { entry.model?.userChanged() } }
}
