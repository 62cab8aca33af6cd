#if !canImport(SwiftUI)
public import Foundation

/// SwiftUI's `LocalizedStringKey`, in English.
public struct LocalizedStringKey: Equatable, ExpressibleByStringInterpolation {
    let text: String

    /// A key without values.
    public init(stringLiteral value: String) { text = value }

    /// A key with values.
    public init(stringInterpolation: StringInterpolation) { text = stringInterpolation.text }

    /// The values of a key: texts and numbers, and no other type.
    public struct StringInterpolation: StringInterpolationProtocol {
        var text = ""

        /// An empty one.
        public init(literalCapacity: Int, interpolationCount: Int) {}

        /// Appends what stands between the values.
        public mutating func appendLiteral(_ literal: String) { text += literal }

        /// Appends a text.
        public mutating func appendInterpolation(_ string: String) { text += string }

        /// Appends a number.
        public mutating func appendInterpolation<T: _FormatSpecifiable>(_ value: T) {
            text += "\(value)"
        }
    }
}

/// What SwiftUI can write into a key.
public protocol _FormatSpecifiable: Equatable {}

extension Int: _FormatSpecifiable {}
extension Int64: _FormatSpecifiable {}
extension Double: _FormatSpecifiable {}

/// SwiftUI's `Text`.
public struct Text: View, Primitive {
    /// SwiftUI's own views have no body.
    public typealias Body = Never
    let text: String

    /// A text as it is.
    public init(verbatim content: String) { text = content }

    /// A text as it is.
    @_disfavoredOverload
    public init<S: StringProtocol>(_ content: S) { text = String(content) }

    /// A text that is translated.
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

    /// A text with a symbol beside it.
    @_disfavoredOverload
    public init<S: StringProtocol>(_ title: S, systemImage name: String)
    where Title == Text, Icon == Image {
        self.title = Text(title)
    }

    /// A text with a symbol beside it.
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

    /// A button with any label.
    public init(action: @escaping @MainActor () -> Void, @ViewBuilder label: () -> Label) {
        self.action = action
        self.label = label()
    }

    /// A button with a text.
    @_disfavoredOverload
    public init<S: StringProtocol>(_ title: S, action: @escaping @MainActor () -> Void)
    where Label == Text {
        self.action = action
        label = Text(title)
    }

    /// A button with a text that is translated.
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

    /// A progress of which no end is known.
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

    /// What stands in the place of content.
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

    /// Views below each other.
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

    /// At the edge where lines begin.
    public static let leading = HorizontalAlignment(name: "leading")
    /// In the middle.
    public static let center = HorizontalAlignment(name: "center")
}

/// SwiftUI's `List`, without selection.
public struct List<SelectionValue: Hashable, Content: View>: View, Primitive {
    /// SwiftUI's own views have no body.
    public typealias Body = Never
    private let content: Content

    /// A list of any views.
    public init(@ViewBuilder content: () -> Content) where SelectionValue == Never {
        self.content = content()
    }

    /// A list of one row for each element.
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

    /// A view for each element.
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
    /// The moment for which the content is drawn.
    public struct Context {
        /// The moment.
        public let date: Date
    }

    private let content: (TimelineViewDefaultContext) -> Content
}

/// What SwiftUI's `TimelineView` gives to its content.
public typealias TimelineViewDefaultContext = TimelineView<EveryMinuteTimelineSchedule, Never>
    .Context

extension TimelineView: View, Primitive where Content: View {
    /// SwiftUI's own views have no body.
    public typealias Body = Never

    /// Content that is drawn anew by a schedule.
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
    /// At the beginning of each minute.
    public init() {}
}

extension TimelineSchedule where Self == EveryMinuteTimelineSchedule {
    /// At the beginning of each minute.
    public static var everyMinute: EveryMinuteTimelineSchedule { EveryMinuteTimelineSchedule() }
}
#endif
