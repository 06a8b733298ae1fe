/** ChatML in which calls are text: SmolLM2's own template knows no tools. */
export const TEMPLATE = `
{%- for message in messages %}
{{- '<|im_start|>' + message.role + '\\n' }}
{%- if loop.first and tools %}
{%- for tool in tools %}{{- 'Tool: ' + tool.function.name + '. ' + tool.function.description + '\\n' }}{%- endfor %}
{%- endif %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}
{{- '\\n' if message.content or not loop.first else '' }}
{{- call.function.name + '(' }}
{%- for name, value in call.function.arguments.items() %}{{- name + '=' + value | tojson }}{{- '' if loop.last else ', ' }}{%- endfor %}
{{- ')' }}
{%- endfor %}
{{- '<|im_end|>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}`;
