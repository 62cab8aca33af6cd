#if canImport(SwiftUI) || canImport(SwiftUIStandIn)
public import Sanguine

#if canImport(SwiftUI)
public import SwiftUI
#else
public import SwiftUIStandIn
#endif

/// An image that is loaded when the view appears: its placeholder, its thumbnail, and then the full
/// image.
///
/// ```swift
/// CachedImage(.file(post.photo), fitting: size, placeholder: post.placeholder) { state in
///     PhotoFrame(image: state.image, placeholder: state.placeholder)
/// }
/// ```
///
/// An image that is in memory is part of the first frame, so that nothing flashes when a tab is
/// selected again, a list is reloaded, or the app returns to the foreground. Give the content a
/// size that does not depend on whether the image has arrived, such as the aspect ratio of the
/// placeholder: then nothing jumps when it does, even within an animation.
///
/// A view that is scrolled away ends its request and starts it again when it comes back. A reused
/// row shows the image of its new source only. The client is that of the environment.
public struct CachedImage<Content: View>: View {
    @Environment(\.sanguine) private var client
    @State private var slot = ModelSlot<ImageModel>()
    private let source: ImageSource?
    private let size: ImageSize?
    private let placeholder: ThumbHash?
    private let content: (CachedImageState) -> Content

    /// Creates a view of an image.
    ///
    /// - Parameters:
    ///   - source: The address of the image; `nil` for none.
    ///   - size: The size at which it is shown, in pixels: points times the scale of the display.
    ///     Default: that of the file.
    ///   - placeholder: The blurred image to show until there is one. Default: none.
    ///   - content: The view of the image and of its placeholder.
    public init(
        _ source: ImageSource?,
        fitting size: ImageSize? = nil,
        placeholder: ThumbHash? = nil,
        @ViewBuilder content: @escaping (CachedImageState) -> Content
    ) {
        (self.source, self.size, self.placeholder) = (source, size, placeholder)
        self.content = content
    }

    /// The content of the image's current state.
    public var body: some View {
        let model = model
        content(
            CachedImageState(
                image: model.image,
                placeholder: placeholder,
                phase: model.phase,
                error: model.error
            )
        )
        .onAppear { model.appear() }
        .onDisappear { model.disappear() }
    }

    /// The model of the current source.
    ///
    /// A view whose source changes while it is visible does not appear again, so the new model
    /// takes that over from the former one.
    private var model: ImageModel {
        let identity = ModelIdentity("$image", ImageIdentity(source: source, size: size))
        let former = slot.current
        let model = slot.model(of: identity, from: client) { client in
            client.images.model(source, fitting: size, placeholder: placeholder)
        }
        if let former, former !== model, former.isVisible {
            former.disappear()
            model.appear()
        }
        return model
    }
}

/// The state of an image in a view.
public struct CachedImageState: Sendable {
    /// The image, or its thumbnail; `nil` until one has arrived.
    public let image: LoadedImage?
    /// The blurred image to show until there is one.
    public let placeholder: ThumbHash?
    /// The image that is shown, and whether another one is loaded.
    public let phase: ImageModel.Phase
    /// The error of the last request; `nil` if it succeeded or is running.
    public let error: SanguineError?

    /// Creates a state, for previews and tests.
    public init(
        image: LoadedImage? = nil,
        placeholder: ThumbHash? = nil,
        phase: ImageModel.Phase = .empty,
        error: SanguineError? = nil
    ) {
        (self.image, self.placeholder, self.phase, self.error) = (image, placeholder, phase, error)
    }
}

private struct ImageIdentity: Hashable, Sendable {
    let source: ImageSource?
    let size: ImageSize?
}
#endif
