#if !canImport(SwiftUI)
public import Foundation

/// SwiftUI's `LocalizedStringKey`, in English.
public struct LocalizedStringKey: Equatable, ExpressibleByStringInterpolation {
    let text: String

    /// Creates a key without values.
    public init(stringLiteral value: String) { text = value }

    /// Creates a key with values.
    public init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    /// The values of a key, which may only be strings and numbers.
    public struct StringInterpolation: StringInterpolationProtocol {
        var text = ""

        /// Creates an empty interpolation.
        public init(literalCapacity: Int, interpolationCount: Int) {}

        /// Appends the text between values.
        public mutating func appendLiteral(_ literal: String) { text += literal }

        /// Appends a string.
        public mutating func appendInterpolation(_ string: String) { text += string }

        /// Appends a number.
        public mutating func appendInterpolation<T: _FormatSpecifiable>(_ value: T) {
            text += "\(value)"
        }
    }
}

/// The types that SwiftUI can write into a key.
public protocol _FormatSpecifiable: Equatable {}

extension Int: _FormatSpecifiable {}
extension Int64: _FormatSpecifiable {}
extension Double: _FormatSpecifiable {}

/// SwiftUI's `Text`.
public struct Text: View, Primitive {
    /// SwiftUI's own views have no body.
    public typealias Body = Never
    let text: String

    /// Creates a text from a string.
    public init(verbatim content: String) { text = content }

    /// Creates a text from a string.
    @_disfavoredOverload
    public init<S: StringProtocol>(_ content: S) { text = String(content) }

    /// Creates a localized text.
    public init(
        _ key: LocalizedStringKey,
        tableName: String? = nil,
        bundle: Bundle? = nil,
        comment: StaticString? = nil
    ) {
        text = key.text
    }

    func draw(with pen: StandInPen) { pen.write(text) }
}

/// SwiftUI's `Label`.
public struct Label<Title: View, Icon: View>: View, Primitive {
    /// SwiftUI's own views have no body.
    public typealias Body = Never
    private let title: Title

    /// Creates a text with a symbol.
    @_disfavoredOverload
    public init<S: StringProtocol>(_ title: S, systemImage name: String)
    where Title == Text, Icon == Image {
        self.title = Text(title)
    }

    /// Creates a text with a symbol.
    public init(_ titleKey: LocalizedStringKey, systemImage name: String)
    where Title == Text, Icon == Image {
        title = Text(titleKey)
    }

    func draw(with pen: StandInPen) { pen.draw(title, "title") }
}

/// SwiftUI's `Image`.
public struct Image: View, Primitive {
    /// SwiftUI's own views have no body.
    public typealias Body = Never

    func draw(with pen: StandInPen) {}
}

/// SwiftUI's `Button`.
public struct Button<Label: View>: View, Primitive {
    /// SwiftUI's own views have no body.
    public typealias Body = Never
    private let action: @MainActor () -> Void
    private let label: Label

    /// Creates a button with any label.
    public init(action: @escaping @MainActor () -> Void, @ViewBuilder label: () -> Label) {
        self.action = action
        self.label = label()
    }

    /// Creates a button with a text.
    @_disfavoredOverload
    public init<S: StringProtocol>(_ title: S, action: @escaping @MainActor () -> Void)
    where Label == Text {
        self.action = action
        label = Text(title)
    }

    /// Creates a button with a localized text.
    public init(_ titleKey: LocalizedStringKey, action: @escaping @MainActor () -> Void)
    where Label == Text {
        self.action = action
        label = Text(titleKey)
    }

    func draw(with pen: StandInPen) { pen.draw(label, "label", pressing: action) }
}

/// SwiftUI's `ProgressView`.
public struct ProgressView<Label: View, CurrentValueLabel: View>: View, Primitive {
    /// SwiftUI's own views have no body.
    public typealias Body = Never

    /// Creates a progress view without a known end.
    public init() where Label == EmptyView, CurrentValueLabel == EmptyView {}

    func draw(with pen: StandInPen) { pen.write("(progress)") }
}

/// SwiftUI's `ContentUnavailableView`.
public struct ContentUnavailableView<Label: View, Description: View, Actions: View>: View,
    Primitive
{
    /// SwiftUI's own views have no body.
    public typealias Body = Never
    private let label: Label
    private let description: Description
    private let actions: Actions

    /// Creates a view that replaces missing content.
    public init(
        @ViewBuilder label: () -> Label,
        @ViewBuilder description: () -> Description = { EmptyView() },
        @ViewBuilder actions: () -> Actions = { EmptyView() }
    ) {
        self.label = label()
        self.description = description()
        self.actions = actions()
    }

    func draw(with pen: StandInPen) {
        pen.draw(label, "label")
        pen.draw(description, "description")
        pen.draw(actions, "actions")
    }
}

/// SwiftUI's `VStack`.
public struct VStack<Content: View>: View, Primitive {
    /// SwiftUI's own views have no body.
    public typealias Body = Never
    private let content: Content

    /// Creates a vertical stack of views.
    public init(
        alignment: HorizontalAlignment = .center,
        spacing: CGFloat? = nil,
        @ViewBuilder content: () -> Content
    ) {
        self.content = content()
    }

    func draw(with pen: StandInPen) { pen.draw(content, "content") }
}

/// SwiftUI's `HorizontalAlignment`.
public struct HorizontalAlignment: Equatable, Sendable {
    private let name: String

    /// The leading edge.
    public static let leading = HorizontalAlignment(name: "leading")
    /// The center.
    public static let center = HorizontalAlignment(name: "center")
}

/// SwiftUI's `List`, without selection.
public struct List<SelectionValue: Hashable, Content: View>: View, Primitive {
    /// SwiftUI's own views have no body.
    public typealias Body = Never
    private let content: Content

    /// Creates a list of any views.
    public init(@ViewBuilder content: () -> Content) where SelectionValue == Never {
        self.content = content()
    }

    /// Creates a list with one row for each element.
    public init<Data: RandomAccessCollection, RowContent: View>(
        _ data: Data,
        @ViewBuilder rowContent: @escaping (Data.Element) -> RowContent
    )
    where
        Content == ForEach<Data, Data.Element.ID, RowContent>,
        Data.Element: Identifiable,
        SelectionValue == Never
    {
        content = ForEach(data, content: rowContent)
    }

    func draw(with pen: StandInPen) { pen.draw(content, "content") }
}

/// SwiftUI's `ForEach`.
public struct ForEach<Data: RandomAccessCollection, ID: Hashable, Content> {
    private let data: Data
    private let content: (Data.Element) -> Content
    private let id: (Data.Element) -> ID
}

extension ForEach: View, Primitive where Content: View {
    /// SwiftUI's own views have no body.
    public typealias Body = Never

    /// Creates a view for each element.
    public init(_ data: Data, @ViewBuilder content: @escaping (Data.Element) -> Content)
    where ID == Data.Element.ID, Data.Element: Identifiable {
        self.init(data: data, content: content, id: \.id)
    }

    func draw(with pen: StandInPen) {
        for element in data { pen.draw(content(element), "\(id(element))") }
    }
}

/// SwiftUI's `TimelineView`.
public struct TimelineView<Schedule: TimelineSchedule, Content> {
    /// The time for which content is drawn.
    public struct Context {
        /// The time.
        public let date: Date
    }

    private let content: (TimelineViewDefaultContext) -> Content
}

/// The context that SwiftUI's `TimelineView` passes to its content.
public typealias TimelineViewDefaultContext = TimelineView<EveryMinuteTimelineSchedule, Never>
    .Context

extension TimelineView: View, Primitive where Content: View {
    /// SwiftUI's own views have no body.
    public typealias Body = Never

    /// Creates content that is drawn again on a schedule.
    public init(
        _ schedule: Schedule,
        @ViewBuilder content: @escaping (TimelineViewDefaultContext) -> Content
    ) {
        self.content = content
    }

    func draw(with pen: StandInPen) {
        let context = TimelineViewDefaultContext(date: pen.now)
        pen.draw(content(context), "content")
    }
}

/// SwiftUI's `TimelineSchedule`.
public protocol TimelineSchedule {}

/// SwiftUI's `EveryMinuteTimelineSchedule`.
public struct EveryMinuteTimelineSchedule: TimelineSchedule, Sendable {
    /// Creates a schedule for the start of each minute.
    public init() {}
}

extension TimelineSchedule where Self == EveryMinuteTimelineSchedule {
    /// A schedule for the start of each minute.
    public static var everyMinute: EveryMinuteTimelineSchedule { EveryMinuteTimelineSchedule() }
}
#endif
